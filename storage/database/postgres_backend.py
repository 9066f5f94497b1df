"""A PostgreSQL schema that holds all runs of all ranks; the tables are those of the run files."""

import logging
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, create_engine, select, text
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from ..control_channel import DatabaseChannel
from ..errors import InvalidName, StoreUnavailable, without_passwords
from ..history.compaction import Retention
from ..records import Finding, Json
from ..run_info import Run
from ..schema.connect import guard_forks, store_errors
from ..schema.ledger import Feed, read_feeds
from ..schema.rare_rows import add_findings
from ..schema.table_definitions import (
    PACKED,
    annotation,
    check_version,
    people,
    recording,
    schema_version,
    upgrade,
    written,
)
from .commits import ServerCommits, claim_commits, wait_for_disk
from .folder_catalogue import forget_notes, read_notes, write_mute, write_note
from .rank_recording import Feeding, RankRecording, RecordingSummary, RunNote, StoredMessage, claim, summarise_runs
from .recording_writer import RecordingWriter
from .store_backend import Listed

_log = logging.getLogger(__name__)
#: Advisory lock under which ranks that start at the same moment create tables; any fixed number works.
_LOCK = 0x6D696E64
#: Runs that are listed by one query.
_LISTED = 200
#: Seconds that a thread waits for a connection in use.
_WAIT_S = 30.0
#: Seconds after which a connection that is not used is closed: less than between two heartbeats. Our choice.
_IDLE_S = 5.0
#: Seconds between tries to begin a run on a server whose connections are all in use; some are given back meanwhile.
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
#: What a server or a pooler says then.
_NO_ROOM = "too many clients|too many connections|connection slots are reserved|no more connections allowed"


class PostgresBackend:
    """The `StoreBackend` of a PostgreSQL schema (the first of the connection's search path)."""

    _engine: Engine
    _snapshots: Engine

    def __init__(self, url: str, *, retention: Retention) -> None:
        self._retention = retention
        self._is_writing = self._is_migrated = False
        self._use(_engine(url))
        self.url = without_passwords(self._engine.url.render_as_string(hide_password=True))
        with store_errors(self.url), self._engine.begin() as connection:
            self._ready = schema_version(connection) > 0
            if self._ready:
                check_version(connection)

    def listed(self) -> Iterator[Listed]:
        """Yield the runs, newest first, many of them by one query."""
        if not self._is_ready():
            return
        with store_errors(self.url), self._snapshots.begin() as connection:
            query = select(recording.c.run).order_by(recording.c.created_at.desc(), recording.c.run.desc())
            runs = list(dict.fromkeys(connection.execute(query).scalars()))
        for begin in range(0, len(runs), _LISTED):
            asked = runs[begin : begin + _LISTED]
            with store_errors(self.url), self._snapshots.begin() as connection:
                summaries, notes = summarise_runs(connection, asked), read_notes(connection, asked)
            yield from ((summaries[run], notes[run]) for run in asked)

    def recordings(self, run: str) -> tuple[RankRecording, ...]:
        """Return the ranks of a run, ascending; none for an unknown run."""
        if not self._is_ready():
            return ()
        query = select(recording.c.rank, recording.c.id).where(recording.c.run == run).order_by(recording.c.rank)
        with self._single() as connection:
            found = connection.execute(query).all()
        return tuple(RankRecording(run, rank, number, self._snapshots, self.url) for rank, number in found)

    def summaries(self, run: str) -> tuple[RecordingSummary, ...]:
        """Return a summary per rank of a run."""
        if not self._is_ready():
            return ()
        with store_errors(self.url), self._snapshots.begin() as connection:
            return summarise_runs(connection, [run])[run]

    def revisions(self, run: str) -> tuple[int, Sequence[tuple[int, int]]]:
        """Return the revision of the note, and (rank, revision) of each recording, ascending: in one query."""
        if not self._is_ready():
            return 0, ()
        note = select(annotation.c.revision).where(annotation.c.run == run).scalar_subquery()
        query = select(recording.c.rank, recording.c.revision, note).where(recording.c.run == run)
        with self._single() as connection:
            found = connection.execute(query.order_by(recording.c.rank)).all()
        return (found[0][2] or 0 if found else 0), [(rank, revision) for rank, revision, _ in found]

    @contextmanager
    def _single(self) -> Iterator[Connection]:
        """Open a connection for a single query, which needs no transaction around it: one round trip and not three."""
        with store_errors(self.url), self._snapshots.connect() as plain:
            yield plain.execution_options(isolation_level="AUTOCOMMIT")

    def note(self, run: str) -> RunNote:
        """Return the name, tags, remark and muted rules that people gave a run."""
        with store_errors(self.url), self._snapshots.begin() as connection:
            return read_notes(connection, [run])[run]

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Change the values that are not None."""
        with store_errors(self.url), self._engine.begin() as connection:
            write_note(connection, run, name, tags, remark)

    def mute(self, run: str, rule: str, site: str, muted: bool) -> None:
        """Hide the findings of a rule at a site, or show them again."""
        with store_errors(self.url), self._engine.begin() as connection:
            write_mute(connection, run, rule, site, muted)

    def begin(self, run: Run, rank: int, feeding: Feeding | None = None) -> RecordingWriter:
        """Make or join the recording of a rank; refuse one that another living writer has."""
        self._share_one_connection()
        for pause_s in (*_PAUSES_S, None):
            try:
                return self._begin(run, rank, feeding)
            except StoreUnavailable as error:
                if pause_s is None or not re.search(_NO_ROOM, str(error)):
                    raise
                _log.warning("run %s: all connections of the database are in use; trying again", run.id)
                time.sleep(pause_s)
        raise AssertionError("the last pause is None")

    def _begin(self, run: Run, rank: int, feeding: Feeding | None) -> RecordingWriter:
        if feeding is None or not self._is_migrated:
            migrate_database(self._engine)
            self._ready = self._is_migrated = True
        with store_errors(self.url), self._engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            number, begun = claim(connection, run, rank, self.url, feeding)
            token = claim_commits(connection, number)
        target = RankRecording(run.id, rank, number, self._engine, self.url)
        commits = ServerCommits(self._engine, self.url, number, token)
        housekeeping = _ServerHousekeeping(self._engine, is_shared=feeding is not None)
        return RecordingWriter(target, begun, commits, housekeeping, self._retention, is_fed=feeding is not None)

    def flush(self, stored: Sequence[StoredMessage]) -> None:
        """Wait until these messages are durable; see first that the server has not lost them meanwhile."""
        with store_errors(self.url), self._engine.begin() as connection:
            feeds = read_feeds(connection, {(one.run, one.rank) for one in stored})
            for one in stored:
                number, feed = feeds.get((one.run, one.rank), (0, Feed()))
                if not feed.has(one.writer, one.number):
                    raise StoreUnavailable(f"{self.url}: the server has lost what it had acknowledged; it comes again")
            wait_for_disk(connection, number)

    def _share_one_connection(self) -> None:
        """Use one connection for writing and reading from now on: a training of many ranks has no more to give."""
        if not self._is_writing:
            self._engine.dispose()
            self._is_writing = True
            self._use(_engine(self._engine.url.render_as_string(hide_password=False), is_writing=True))

    def _use(self, engine: Engine) -> None:
        """Use a pool of connections: for writing, and for reading with several queries that must see one state.

        Either is the pool's own level, which costs nothing, or one that is set and reset with each use.
        """
        if self._is_writing:
            self._engine, self._snapshots = engine, engine.execution_options(isolation_level="REPEATABLE READ")
        else:
            self._engine, self._snapshots = engine.execution_options(isolation_level="READ COMMITTED"), engine

    def add_findings(self, target: RankRecording, findings: Sequence[Finding]) -> None:
        """Add findings to a recording, beside its writer if there is one."""
        with store_errors(self.url), self._engine.begin() as connection:
            add_findings(connection, target.id, findings)

    def control_channel(self, run: str) -> DatabaseChannel:
        """Return documents as rows."""
        return DatabaseChannel(self._engine, run, self.url, self._is_busy)

    def _is_busy(self) -> bool:
        """Return whether the only connection is in use."""
        return self._is_writing and _is_in_use(self._engine)

    def delete(self, run: str) -> None:
        """Remove everything of a run."""
        with store_errors(self.url), self._engine.begin() as connection:
            connection.execute(recording.delete().where(recording.c.run == run))
            forget_notes(connection, run)
        self.control_channel(run).clear()

    def missing(self) -> tuple[str, bool]:
        """Return nothing: a database that is not there is an error."""
        return "", False

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _is_ready(self) -> bool:
        """Return whether the tables exist; another process may create them at any time."""
        if not self._ready:
            with store_errors(self.url), self._snapshots.begin() as connection:
                self._ready = schema_version(connection) > 0
        return self._ready


class _ServerHousekeeping:
    """The `Housekeeping` of a database, whose server does it.

    Args:
        is_shared: Whether many recordings are written through the engine, which keeps its connection then.
    """

    def __init__(self, engine: Engine, *, is_shared: bool = False) -> None:
        self._engine, self._is_shared = engine, is_shared
        self._used_at = time.monotonic()

    def check(self, *, growing: bool) -> None:
        """Note that the connection is used; the server reports its own errors."""
        self._used_at = time.monotonic()

    def committed(self, revision: int, records: int, last_step: int) -> None:
        """Do nothing: the server's log has checksums of its own."""

    def tidy(self) -> bool:
        """Give a connection back that is not used; autovacuum and checkpoints are the server's."""
        if not self._is_shared and time.monotonic() - self._used_at > _IDLE_S and not _is_in_use(self._engine):
            self._engine.dispose()
            self._used_at = math.inf
        return False

    def make_room(self) -> None:
        """Do nothing: the server manages its own disk."""

    def release(self) -> None:
        """Close the connection."""
        if not self._is_shared:
            self._engine.dispose()


def _is_in_use(engine: Engine) -> bool:
    """Return whether one of its connections is in use now."""
    return isinstance(engine.pool, QueuePool) and engine.pool.checkedout() > 0


def migrate_database(engine: Engine) -> list[str]:
    """Bring a schema to the current version; return a line per migration."""
    with store_errors(without_passwords(engine.url.render_as_string())), engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        done = upgrade(connection)
        written.create_all(connection)
        if done:
            people.create_all(connection)
            _keep_packed(connection)
        return done


def connect_database(url: str) -> Engine:
    """Return an engine for a PostgreSQL URL.

    Raises:
        InvalidName: It is no URL.
        StoreUnavailable: The driver is not installed.
    """
    return _engine(url, is_writing=True)


def _keep_packed(connection: Connection) -> None:
    """Switch off the server's compression of columns that are compressed already."""
    for table, column in PACKED:
        connection.execute(text(f'ALTER TABLE "{table}" ALTER COLUMN "{column}" SET STORAGE EXTERNAL'))


def _engine(url: str, *, is_writing: bool = False) -> Engine:
    """Return an engine that keeps one connection open; only one that is not writing opens more, and closes them.

    Its connections have no state of their own, so that a pooler may give each transaction to another one: nothing is
    set when they are opened, and no statement is prepared on the server.
    """
    spelled = url if url.startswith("postgresql+") else url.replace("postgresql", "postgresql+psycopg", 1)
    try:
        engine = create_engine(
            spelled,
            pool_size=1,
            max_overflow=0 if is_writing else 7,
            pool_timeout=_WAIT_S,
            isolation_level="READ COMMITTED" if is_writing else "REPEATABLE READ",
            connect_args={"prepare_threshold": None},
        )
    except (ArgumentError, ValueError) as error:  # ValueError: a port that is no number
        raise InvalidName(
            f"store {without_passwords(url)!r} is no URL: expected postgresql+psycopg://user@host:port/database"
        ) from error
    except ModuleNotFoundError as error:
        raise StoreUnavailable(f"PostgreSQL needs a driver: pip install 'mindscope[postgres]' ({error})") from error
    guard_forks(engine)
    return engine
