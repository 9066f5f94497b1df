"""A PostgreSQL schema that holds all runs of all ranks; the tables are those of the run files."""

import logging
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Engine, create_engine, event, select, text
from sqlalchemy.exc import ArgumentError

from ..control_channel import DatabaseChannel
from ..errors import InvalidName, StoreUnavailable, without_passwords
from ..history.compaction import Retention
from ..records import Finding, Json
from ..run_info import Run
from ..schema.connect import guard_forks, store_errors
from ..schema.row_statements import mark_changed
from ..schema.table_definitions import PACKED, check_version, people, recording, schema_version, upgrade
from ..store import RunWriter
from .folder_catalogue import forget_notes, read_note, write_mute, write_note
from .rank_recording import RankRecording, RecordingSummary, RunNote, claim, summarise_recording, write_findings
from .recording_writer import RecordingWriter

_log = logging.getLogger(__name__)
#: Advisory lock under which ranks that start at the same moment create tables; any fixed number works.
_LOCK = 0x6D696E64


class PostgresBackend:
    """The `StoreBackend` of a PostgreSQL schema (the first of the connection's search path)."""

    def __init__(self, url: str, *, retention: Retention) -> None:
        self._retention = retention
        self._engine = _engine(url)
        self.url = without_passwords(self._engine.url.render_as_string(hide_password=True))
        with store_errors(self.url), self._engine.begin() as connection:
            self._ready = schema_version(connection) > 0
            if self._ready:
                check_version(connection)

    def run_ids(self) -> Sequence[str]:
        """Return the runs, newest first."""
        if not self._is_ready():
            return ()
        with store_errors(self.url), self._engine.begin() as connection:
            query = select(recording.c.run).order_by(recording.c.created_at.desc(), recording.c.run.desc())
            return list(dict.fromkeys(connection.execute(query).scalars()))

    def recordings(self, run: str) -> tuple[RankRecording, ...]:
        """Return the ranks of a run, ascending; none for an unknown run."""
        if not self._is_ready():
            return ()
        with store_errors(self.url), self._engine.begin() as connection:
            query = select(recording.c.rank, recording.c.id).where(recording.c.run == run).order_by(recording.c.rank)
            found = connection.execute(query).all()
        return tuple(RankRecording(run, rank, number, self._engine, self.url) for rank, number in found)

    def summaries(self, run: str) -> tuple[RecordingSummary, ...]:
        """Return a summary per rank of a run."""
        found = []
        for target in self.recordings(run):
            with target.read() as connection:
                found.append(summarise_recording(connection, target.id))
        return tuple(found)

    def note(self, run: str) -> RunNote:
        """Return the name, tags, remark and muted rules that people gave a run."""
        with store_errors(self.url), self._engine.begin() as connection:
            return read_note(connection, run)

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Change the values that are not None."""
        with store_errors(self.url), self._engine.begin() as connection:
            write_note(connection, run, name, tags, remark)

    def mute(self, run: str, rule: str, site: str, muted: bool) -> None:
        """Hide the findings of a rule at a site, or show them again."""
        with store_errors(self.url), self._engine.begin() as connection:
            write_mute(connection, run, rule, site, muted)

    def begin(self, run: Run, rank: int) -> RunWriter:
        """Make or join the recording of a rank; refuse one that another living writer has."""
        migrate_database(self._engine)
        self._ready = True
        engine = _engine(self._engine.url.render_as_string(hide_password=False), one_writer=True)
        try:
            with store_errors(self.url), engine.begin() as connection:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                number, begun = claim(connection, run, rank, self.url)
            target = RankRecording(run.id, rank, number, engine, self.url)
            return RecordingWriter(target, begun, _ServerHousekeeping(engine), self._retention)
        except BaseException:
            engine.dispose()
            raise

    def add_findings(self, target: RankRecording, findings: Sequence[Finding]) -> None:
        """Add findings to a recording, beside its writer if there is one."""
        with store_errors(self.url), self._engine.begin() as connection:
            write_findings(connection, target.id, findings)
            mark_changed(connection, target.id)

    def control_channel(self, run: str) -> DatabaseChannel:
        """Return documents as rows."""
        return DatabaseChannel(self._engine, run, self.url)

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
            with store_errors(self.url), self._engine.begin() as connection:
                self._ready = schema_version(connection) > 0
        return self._ready


class _ServerHousekeeping:
    """The `Housekeeping` of a database, whose server does it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def check(self, *, growing: bool) -> None:
        """Do nothing: the server reports its own errors."""

    def tidy(self) -> bool:
        """Return False: autovacuum and checkpoints are the server's."""
        return False

    def make_room(self) -> None:
        """Do nothing: the server manages its own disk."""

    def release(self) -> None:
        """Close the connection."""
        self._engine.dispose()


def migrate_database(engine: Engine) -> list[str]:
    """Bring a schema to the current version; return a line per migration."""
    with store_errors(without_passwords(engine.url.render_as_string())), engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        done = upgrade(connection)
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
    return _engine(url)


def _keep_packed(connection: Connection) -> None:
    """Switch off the server's compression of columns that are compressed already."""
    for table, column in PACKED:
        connection.execute(text(f'ALTER TABLE "{table}" ALTER COLUMN "{column}" SET STORAGE EXTERNAL'))


def _engine(url: str, *, one_writer: bool = False) -> Engine:
    spelled = url if url.startswith("postgresql+") else url.replace("postgresql", "postgresql+psycopg", 1)
    pool = {"pool_size": 1, "max_overflow": 0} if one_writer else {"pool_size": 4, "max_overflow": 16}
    try:
        engine = create_engine(spelled, **pool)
    except (ArgumentError, ValueError) as error:  # ValueError: a port that is no number
        raise InvalidName(
            f"store {without_passwords(url)!r} is no URL: expected postgresql+psycopg://user@host:port/database"
        ) from error
    except ModuleNotFoundError as error:
        raise StoreUnavailable(f"PostgreSQL needs a driver: pip install 'mindscope[postgres]' ({error})") from error
    guard_forks(engine)
    if one_writer:
        # A crash of the server may cost the newest observations, as a crash of ours does.
        event.listen(engine, "connect", _write_behind)
    return engine


def _write_behind(connection: object, _record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("SET synchronous_commit = off")
    cursor.close()
    connection.commit()  # type: ignore[attr-defined]
