"""The transactions of a writer: plain ones of a file, and those of a server, which is asked what it still knows.

With `synchronous_commit = off`, PostgreSQL acknowledges a commit before it is on disk; a crash of the server takes the
newest of them back. The row `writer_claim` of a recording holds a random token of its writer and the number of its last
transaction. Every transaction begins by raising that number, on the condition that token and number are what the
writer remembers. If they are not, the writer reads what is durable and does the lost transactions again: it keeps them
until the server's log has been flushed beyond them. Transactions that create something with an id wait for the disk.
"""

import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from ..errors import StoreUnavailable
from ..preview import Preview
from ..records import StepRecord
from ..schema.connect import store_errors
from ..schema.table_definitions import claim as claims
from ..schema.table_definitions import recording
from ..store import MissingRecords

_log = logging.getLogger(__name__)

#: Bytes of transactions that are kept until they are durable; beyond, a commit waits for the disk. Our choice: a
#: server flushes within 0.6 s, in which a training writes less.
_MOST_KEPT = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The work of one transaction.

    Args:
        action: Writes; called again for a transaction that the server has lost.
        done: Called when it is committed.
        records: The records that it writes.
        shown: What is known of a previewed record before it.
        is_kept: Whether it is done again when the server has lost it.
        is_durable: Whether its commit waits for the disk.
    """

    action: Callable[[Connection], object]
    done: Callable[[], object] = lambda: None
    records: Sequence[StepRecord] = ()
    shown: Preview = field(default_factory=Preview)
    is_kept: bool = True
    is_durable: bool = False


#: Reads again what the store holds, and does the lost work again that is kept.
Restore = Callable[[Connection, Sequence[Work]], object]


class Commits(Protocol):
    """Runs the transactions of one writer.

    Attributes:
        patience_s: Seconds that the last transaction of a run may wait for a store that is away.
    """

    patience_s: float

    def run(self, work: Work, restore: Restore) -> None:
        """Run a transaction; before it, find out what the store has lost and write it again."""

    def settle(self, restore: Restore) -> None:
        """After a failure, find out what is stored; raise `StoreUnavailable` while nobody answers."""

    def flush_identity(self, connection: Connection) -> None:
        """Make this transaction durable: it creates a row whose id is remembered."""

    def without_landed(self, records: Sequence[StepRecord]) -> Sequence[StepRecord]:
        """Return the records without those that a failed transaction has stored all the same, if they come again."""

    def give_up(self) -> None:
        """Count as missing what may be lost: nobody will write it again."""

    def take_missing(self) -> MissingRecords | None:
        """Return what was acknowledged and is lost for good, since the last call."""


class FileCommits:
    """The `Commits` of a file, which never takes a transaction back."""

    patience_s = 0.0

    def __init__(self, engine: Engine, location: str) -> None:
        self._engine, self._location = engine, location

    def run(self, work: Work, _restore: Restore) -> None:
        """Run a transaction."""
        with store_errors(self._location), self._engine.begin() as connection:
            work.action(connection)
        work.done()

    def settle(self, _restore: Restore) -> None:
        """Do nothing."""

    def flush_identity(self, _connection: Connection) -> None:
        """Do nothing."""

    def without_landed(self, records: Sequence[StepRecord]) -> Sequence[StepRecord]:
        """Return the records."""
        return records

    def give_up(self) -> None:
        """Do nothing."""

    def take_missing(self) -> None:
        """Return nothing."""


# One round trip. The number of the last transaction and its place in the log are known when the next one begins.
_BEGIN = text(
    "UPDATE writer_claim SET commits = :commits + 1, records = :records "
    "WHERE recording = :recording AND token = :token AND commits = :commits "
    "RETURNING set_config('synchronous_commit', :mode, true), "
    "(pg_current_wal_insert_lsn() - '0/0')::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint"
)
_DURABLE = text("SET LOCAL synchronous_commit = on")


def claim_commits(connection: Connection, recording: int) -> str:
    """Make a new token the one of the recording's writer, in a transaction that waits for the disk; return it."""
    connection.execute(_DURABLE)
    token = secrets.token_hex(16)
    connection.execute(claims.delete().where(claims.c.recording == recording))
    connection.execute(claims.insert().values(recording=recording, token=token, commits=0, records=0))
    return token


@dataclass(slots=True, eq=False)
class _Commit:
    """A transaction that may not be durable yet: its number, the records before and in it, and its place in the log."""

    number: int
    before: int
    work: Work
    place: int | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(block.values.nbytes for record in self.work.records for block in record.blocks)

    @property
    def after(self) -> int:
        """The number of records up to and with it."""
        return self.before + len(self.work.records)


@dataclass(frozen=True, slots=True, eq=False)
class _Recovery:
    """What a recovery leads to: the number of its transaction, the records counted as stored, and what is lost.

    Args:
        landed: The transaction whose commit had failed and that is stored all the same.
    """

    number: int
    records: int
    missing: MissingRecords | None
    landed: _Commit | None


class _TakenBack(Exception):
    """The store does not hold the last transaction, or the connection was gone before this one began."""


def wait_for_disk(connection: Connection, recording: int) -> None:
    """Let this transaction wait until it is durable, and with it all that was committed before, by whomever.

    Args:
        recording: Any that has a writer: a transaction that changes nothing waits for nothing.
    """
    connection.execute(_DURABLE)
    connection.execute(claims.update().where(claims.c.recording == recording).values(commits=claims.c.commits))


class ServerCommits:
    """The `Commits` of a PostgreSQL recording.

    Args:
        recording: Number of the recording.
        token: From `claim_commits`.
    """

    patience_s = 15.0

    def __init__(self, engine: Engine, location: str, recording: int, token: str) -> None:
        self._engine, self._location = engine, location
        self._recording, self._token = recording, token
        self._number = self._records = 0  # of the last acknowledged transaction, and records up to it
        self._last_step = -1
        self._kept: deque[_Commit] = deque()  # acknowledged, perhaps not durable
        self._doubtful: _Commit | None = None  # its commit has failed; it may be stored all the same
        self._recovery: _Recovery | None = None  # likewise
        self._is_unsure = False
        self._is_flushed = False  # whether the current transaction waits for the disk
        self._landed: Sequence[StepRecord] = ()
        self._missing: MissingRecords | None = None

    def run(self, work: Work, restore: Restore) -> None:
        """Run a transaction; before it, find out what the server has lost and write it again."""
        self.settle(restore)
        with store_errors(self._location):
            try:
                self._run(work)
            except _TakenBack:
                self.settle(restore)
                try:
                    self._run(work)
                except _TakenBack as error:
                    raise StoreUnavailable(f"{self._location}: the server keeps going away: {error}") from error
        work.done()

    def settle(self, restore: Restore) -> None:
        """After a failure, find out what is stored, and do lost transactions again."""
        if not self._is_unsure:
            return
        with store_errors(self._location):
            try:
                self._recover(restore)
            except DBAPIError as error:
                if error.connection_invalidated or not self._kept or isinstance(error, OperationalError):
                    raise
                _log.error("%s: lost records cannot be written again: %s", self._location, error)
                self._kept = deque(replace(kept, work=replace(kept.work, is_kept=False)) for kept in self._kept)
                self._recover(restore)

    def flush_identity(self, connection: Connection) -> None:
        """Make this transaction durable."""
        if not self._is_flushed:
            connection.execute(_DURABLE)
            self._is_flushed = True

    def without_landed(self, records: Sequence[StepRecord]) -> Sequence[StepRecord]:
        """Return the records without those that a failed transaction has stored all the same, if they come again."""
        if self._landed and records and records[0] is self._landed[0]:
            records, self._landed = records[len(self._landed) :], ()
        return records

    def give_up(self) -> None:
        """Count as missing what was acknowledged and not seen to be durable."""
        if records := [record for kept in self._kept for record in kept.work.records]:
            self._missing = MissingRecords(len(records), records[0].step, records[-1].step)
            self._kept.clear()

    def take_missing(self) -> MissingRecords | None:
        """Return what was acknowledged and is lost for good; what was refused and is stored counts against it."""
        missing, self._missing = self._missing, None
        if self._landed:
            steps = (self._landed[0].step, self._landed[-1].step)
            missing = MissingRecords((missing.count if missing else 0) - len(self._landed), *steps)
            self._landed = ()
        return missing

    def _run(self, work: Work) -> None:
        commit = _Commit(self._number + 1, self._records, work)
        is_full = commit.size + sum(kept.size for kept in self._kept) > _MOST_KEPT
        self._is_flushed = work.is_durable or is_full
        with self._transaction(commit) as connection:
            self._check(connection, commit)
            work.action(connection)
        self._number, self._records = commit.number, commit.after
        if work.records:
            self._last_step = work.records[-1].step
        self._kept.append(commit)
        if self._is_flushed:  # and with it everything before
            self._kept.clear()

    @contextmanager
    def _transaction(self, commit: _Commit) -> Iterator[Connection]:
        """Open a transaction; remember when it is not known whether it is stored."""
        is_committing = False
        try:
            with self._engine.connect() as connection, connection.begin() as transaction:
                yield connection
                is_committing = True
                transaction.commit()
        except BaseException as error:
            self._is_unsure |= is_committing or isinstance(error, SQLAlchemyError | _TakenBack)
            self._doubtful = commit if is_committing else None
            raise

    def _check(self, connection: Connection, commit: _Commit) -> None:
        """Check that the transaction follows the last one, and forget what is durable by now."""
        mode = "on" if self._is_flushed else "off"
        ours = {"recording": self._recording, "token": self._token, "mode": mode}
        try:
            row = connection.execute(
                _BEGIN, {**ours, "commits": commit.number - 1, "records": commit.after}
            ).one_or_none()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _TakenBack(str(error.orig)) from error
            raise
        if row is None:
            raise _TakenBack("it does not hold the last transaction")
        _, place, flushed = row
        if self._kept and self._kept[-1].place is None:
            self._kept[-1].place = place
        while self._kept and self._kept[0].place is not None and self._kept[0].place <= flushed:
            self._kept.popleft()

    def _recover(self, restore: Restore) -> None:
        """Read what is stored; do lost transactions again or count their records, in one durable transaction."""
        with self._engine.connect() as connection, connection.begin() as transaction:
            connection.execute(_DURABLE)
            stored, records, last_step = self._read_claim(connection)
            if (known := self._recovery) is None or known.number != stored:
                known = self._restored(connection, restore, stored, records, last_step)
                values = {"commits": known.number, "records": known.records}
                connection.execute(claims.update().where(claims.c.recording == self._recording).values(values))
            else:
                restore(connection, ())
            self._recovery = known
            transaction.commit()
        self._number, self._records, self._missing = known.number, known.records, known.missing
        self._landed = known.landed.work.records if known.landed else ()
        self._kept.clear()
        self._doubtful = self._recovery = None
        self._is_unsure = False

    def _restored(
        self, connection: Connection, restore: Restore, stored: int, records: int, last_step: int
    ) -> _Recovery:
        """Bring writer and store together; return what that leads to."""
        used = [self._number, *(each.number for each in (self._doubtful, self._recovery) if each)]
        landed = self._doubtful if self._doubtful and self._doubtful.number == stored else None
        if landed:
            landed.work.done()
            restore(connection, ())
            return _Recovery(max(used) + 1, landed.after, self._missing, landed)
        lost = [kept for kept in self._kept if kept.number > stored]
        restore(connection, [kept.work for kept in lost])
        again = next((kept for kept in lost if kept.work.is_kept), None)
        count = (again.before if again else self._records) - records
        missing = self._missing
        if count > 0:
            steps = [record.step for kept in lost if kept.work.is_kept for record in kept.work.records[:1]]
            end = steps[0] - 1 if steps else self._last_step
            before = missing or MissingRecords(0, last_step + 1, end)
            missing = MissingRecords(before.count + count, min(before.first_step, last_step + 1), end)
        return _Recovery(max(used) + 1, self._records, missing, None)

    def _read_claim(self, connection: Connection) -> tuple[int, int, int]:
        """Return the stored number of the last transaction, how many records are stored, and their last step."""
        query = select(claims.c.token, claims.c.commits, claims.c.records, recording.c.last_step)
        query = query.join(recording, recording.c.id == claims.c.recording).with_for_update(of=claims)
        row = connection.execute(query.where(claims.c.recording == self._recording)).one_or_none()
        if row is None or row.token != self._token:
            what = "is not in the database any more" if row is None else "is written by another process by now"
            raise StoreUnavailable(f"{self._location}: the recording of this training {what}; begin another run")
        return row.commits, row.records, row.last_step
