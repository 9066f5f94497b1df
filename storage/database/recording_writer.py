"""Writes one recording with SQLAlchemy Core, one transaction per call, for SQLite and PostgreSQL."""

import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

from sqlalchemy import Connection, insert

from ..damage import gathering
from ..encoding.checksums import seal
from ..encoding.record_codec import layout_bytes, structure_bytes
from ..errors import StoreError, StoreUnavailable
from ..history.archive_chunks import LENGTH
from ..history.block_stacks import BlockStack, ScalarStreams, pack, stack_blocks, stack_steps
from ..history.compaction import Compactor, Retention, take_apart
from ..history.hot_records import RecordTimes, count_hot, hot_rows, read_newest
from ..history.timeline import count_archived
from ..preview import Preview
from ..process import HEARTBEAT_S
from ..records import Event, Finding, Layout, Outcome, StepRecord, check_earlier, check_order
from ..run_info import Run, RunState, Structure
from ..schema.compiled_statements import insert_rows
from ..schema.connect import store_errors
from ..schema.ledger import STRUCTURE, Feed, count_rows, read_ledger, recount, write_ledger
from ..schema.rare_rows import attachment_row, event_row, histogram_row, outcome_row, write_findings
from ..schema.row_statements import (
    EARLIER,
    STEP_LAYOUT,
    keep_former,
    read_streams,
    remove_record,
    replace_rows,
    seal_structure,
    touch,
)
from ..schema.table_definitions import attachment, event, histogram, hot, outcome, stream
from ..store import MissingRecords
from .commits import Commits, Work
from .rank_recording import RankRecording

_log = logging.getLogger(__name__)
#: Records of a stream that are compacted when the run ends; fewer would take as much room in chunks.
_REST = 16
#: Seconds between two tries of the last transaction.
_RETRY_S = 0.25


class Housekeeping(Protocol):
    """The housekeeping that differs between a file and a database."""

    def check(self, *, growing: bool) -> None:
        """Check that the store can be written; raise `StoreUnavailable` when it is gone or has no room to grow."""

    def committed(self, revision: int, records: int, last_step: int) -> None:
        """Note outside of the store how much was committed."""

    def tidy(self) -> bool:
        """Do one bounded piece (checkpoint, vacuum); return True when more is waiting."""

    def make_room(self) -> None:
        """Free the disk space that is reserved for the end of a run."""

    def release(self) -> None:
        """Close the connection."""


class RecordingWriter:
    """The `RunWriter` of a database; used by one thread, inert in a forked child.

    Args:
        is_fed: Whether it writes what a training elsewhere has sent: it is a `FedWriter` then.
    """

    def __init__(
        self,
        target: RankRecording,
        run: Run,
        commits: Commits,
        housekeeping: Housekeeping,
        retention: Retention,
        *,
        is_fed: bool = False,
    ) -> None:
        self._target = target
        self._commits = commits
        self._housekeeping = housekeeping
        self._retention = retention
        self._pid = os.getpid()
        self._run = run
        self._closed = False
        self._last_heartbeat = time.monotonic()
        with store_errors(target.location), target.engine.begin() as connection:
            streams = read_streams(connection, target.id)
            take_apart(connection, streams)
            hot_records = count_hot(connection, target.id)
            self._ledger = recount(connection, target.id)
            for known in streams:
                if known.records is None:  # it is of an older version, which did not count
                    archived = count_archived(connection, known.id)
                    self._ledger.records[known.id] = archived + hot_records.get(known.id, 0)
            if is_fed:
                self._ledger.feed = self._ledger.feed._replace(holder=secrets.token_hex(8))
            self._revision = write_ledger(connection, target.id, self._ledger)
            steps = next((known.id for known in streams if known.layout == STEP_LAYOUT), None)
            newest = None if steps is None else read_newest(connection, steps)
        self._settled = self._ledger  # as it was last committed
        self._feed = self._ledger.feed if is_fed else None
        self._streams = {known.layout: known.id for known in streams}
        self._scalars = ScalarStreams(self._streams)
        self._earlier_scalars = ScalarStreams(self._streams, EARLIER)
        self._by_identity: dict[int, tuple[Layout, int]] = {}
        self._last = self._joined_last = (run.last_step, newest[1] if newest else 0)
        self._shown = Preview()
        self._upkeep = Compactor(target.id, hot_records, retention)

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._run

    @property
    def feed(self) -> Feed:
        """How far the stored messages go."""
        return self._settled.feed

    def mark(self, feed: Feed) -> None:
        """Store with the next transaction that the messages are stored up to there."""
        self._feed = feed._replace(holder=self._settled.feed.holder)

    def touch(self) -> None:
        """Write nothing but a heartbeat."""
        self._commit(Work(self._touch))

    def release(self) -> None:
        """Release the store without an end of the run; whoever goes on begins with `feed`."""
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            with store_errors(self._target.location):
                self._housekeeping.release()

    def write_structure(self, structure: Structure) -> None:
        """Replace the recorded structure; earlier records keep the former one."""
        data = structure_bytes(structure)
        last = self._last

        def replace_structure(connection: Connection) -> None:
            if keep_former(connection, self._target.id, data, last):
                self._ledger.count("former", 1)
            self._ledger.rows[STRUCTURE] = 1
            self._touch(connection, structure=seal_structure(data, self._target.id))

        self._commit(Work(replace_structure, is_durable=True))

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding] = (), earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Add records, findings and further observations of earlier records in one transaction.

        Raises:
            StoreError: A record does not come after the last one; nothing was written.
        """
        self._check_open()
        self._commits.settle(self._restore)
        records = self._commits.without_landed(records)
        last = check_order(self._run.id, self._last, records)
        joined_last = check_earlier(self._run.id, self._joined_last, last, earlier)
        counts: Counter[int] = Counter()

        def add(connection: Connection) -> None:
            if records:
                self._take_back(connection)
            now = self._stacks(records)
            later = chain(stack_blocks(earlier, is_earlier=True), self._earlier_scalars.stack(earlier))
            counts.clear()
            counts.update(self._write_hot(connection, records, now) + self._write_hot(connection, earlier, later))
            self._write_rare(connection, records)
            self._write_findings(connection, findings)
            self._touch(connection, last_step=last[0])

        def added() -> None:
            self._last, self._joined_last = last, joined_last
            self._shown = self._shown.replaced(last) if records else self._shown
            self._upkeep.grow(counts)

        self._commit(Work(add, added, records), growing=bool(records or earlier))

    def preview(self, record: StepRecord) -> None:
        """Show a record that is not final.

        Raises:
            StoreError: It does not come after the last one.
        """
        shown = check_order(self._run.id, self._last, (record,))

        def show(connection: Connection) -> None:
            self._take_back(connection)
            self._write_hot(connection, (record,), self._stacks((record,)))
            self._write_rare(connection, (record,))
            self._touch(connection, last_step=shown[0])

        def is_shown() -> None:
            self._shown = self._shown.of(shown)

        self._commit(Work(show, is_shown), growing=True)

    def write_events(self, events: Sequence[Event]) -> None:
        """Add events that belong to no record."""

        def add(connection: Connection) -> None:
            self._add_events(connection, _placed(events))
            self._touch(connection)

        def added() -> None:
            self._shown = self._shown.add(events, self._last)

        self._commit(Work(add, added))

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes in one transaction; one of the same attack, norm and epsilon replaces the earlier."""
        rows = [outcome_row(self._target.id, added) for added in outcomes]

        def add(connection: Connection) -> None:
            replace_rows(connection, outcome, self._target.id, rows, ("attack", "norm", "epsilon"))
            self._ledger.rows["outcomes"] = count_rows(connection, self._target.id, "outcomes")
            self._touch(connection)

        self._commit(Work(add))

    def take_missing(self) -> MissingRecords | None:
        """Return the acknowledged records that a server has lost for good, since the last call."""
        return self._commits.take_missing()

    def maintain(self) -> bool:
        """Do one bounded piece of housekeeping; return True when more is waiting."""
        if self._closed or os.getpid() != self._pid:
            return False
        if self._compact_some(LENGTH):
            return True
        if self._feed is None and time.monotonic() - self._last_heartbeat > HEARTBEAT_S:
            self.touch()
        with store_errors(self._target.location):
            return self._housekeeping.tidy()

    def make_room(self) -> None:
        """Free the disk space that is reserved for the end of a run."""
        self._housekeeping.make_room()

    def close(self, state: RunState = "finished", error: str = "") -> None:
        """Compact, record how the run ended and release the store; a second call does nothing."""
        if self._closed or os.getpid() != self._pid:
            return
        self.make_room()
        try:
            end = partial(self._touch, state=state, error=error, writer="")
            self._commit_patiently(Work(end, is_durable=True))
            while self._compact_some(LENGTH):
                pass
            self._compact_rest()
        finally:
            self._closed = True
            with store_errors(self._target.location):
                self._housekeeping.release()

    def _compact_some(self, least: int) -> bool:
        """Compact streams with at least so many hot records, or thin old ones; return whether there was work."""
        if not self._upkeep.is_due(least):
            return False

        def compact(connection: Connection) -> None:
            self._upkeep.run(connection, self._streams, self._ledger, least)

        self._commit(Work(compact, is_kept=False))
        return True

    def _compact_rest(self) -> None:
        """Compact the records that are too few for a whole chunk; leave them uncompressed on a full disk."""
        try:
            while self._compact_some(_REST):
                pass
        except StoreError as error:
            _log.warning("run %s: its newest records stay uncompressed: %s", self._run.id, error)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"run {self._run.id!r} is closed; nothing more can be written to it")
        if os.getpid() != self._pid:
            raise StoreError(f"run {self._run.id!r} belongs to process {self._pid}; this is its forked child")

    def _commit(self, work: Work, *, growing: bool = False) -> None:
        """Run one transaction."""
        self._check_open()
        self._housekeeping.check(growing=growing)
        known = dict(self._streams)
        try:
            self._commits.run(self._accounted(replace(work, shown=self._shown)), self._restore)
        except BaseException:
            self._streams = known  # the streams of this transaction were rolled back
            self._by_identity.clear()
            raise

    def _commit_patiently(self, work: Work) -> None:
        """Run the last transaction; wait for a server that restarts, because what it has lost is only known here."""
        deadline = time.monotonic() + self._commits.patience_s
        while True:
            try:
                return self._commit(work)
            except StoreUnavailable:
                if time.monotonic() >= deadline:
                    self._commits.give_up()
                    raise
            time.sleep(_RETRY_S)

    def _accounted(self, work: Work) -> Work:
        """Return the work with what it changes entered in the ledger, in the same transaction."""
        feed = self._feed

        def act(connection: Connection) -> None:
            with gathering():  # of a damaged ledger, ours is a copy
                found = read_ledger(connection, self._target.id, is_changing=True)
            self._ledger = found or deepcopy(self._settled)
            if feed is not None:
                if self._ledger.feed.holder != feed.holder:
                    raise StoreUnavailable(
                        f"{self._target.location}: another collector writes rank {self._target.rank}"
                    )
                self._ledger.feed = feed
            work.action(connection)
            self._revision = write_ledger(connection, self._target.id, self._ledger)

        def done() -> None:
            self._settled = self._ledger
            work.done()
            records = self._ledger.records.get(self._streams.get(STEP_LAYOUT, 0), 0)
            self._housekeeping.committed(self._revision, records, self._last[0])

        return replace(work, action=act, done=done)

    def _restore(self, connection: Connection, lost: Sequence[Work]) -> None:
        """Read again what the store holds, and do lost work again."""
        streams = read_streams(connection, self._target.id)
        take_apart(connection, streams)
        self._streams = {known.layout: known.id for known in streams}
        self._by_identity.clear()
        if lost:
            self._shown = lost[0].shown
        for work in lost:
            if work.is_kept:
                work.action(connection)
                work.done()
        self._upkeep = Compactor(self._target.id, count_hot(connection, self._target.id), self._retention)

    def _take_back(self, connection: Connection) -> None:
        """Remove the previewed record, if there is one."""
        if self._shown.at is not None:
            remove_record(connection, self._target.id, *self._shown.at, self._ledger)
            self._add_events(connection, _placed(self._shown.staying()))

    def _stacks(self, records: Sequence[StepRecord]) -> Iterator[BlockStack]:
        return chain(stack_steps(records), stack_blocks(records), self._scalars.stack(records))

    def _write_hot(
        self, connection: Connection, records: Sequence[StepRecord], stacks: Iterable[BlockStack]
    ) -> Counter[int]:
        """Add blocks and scalars of records; return the number of new rows by stream."""
        line = RecordTimes.of([(int(record.step), int(record.micro_step), float(record.time)) for record in records])
        counts: Counter[int] = Counter()
        rows: list[dict[str, Any]] = []
        together = list(stacks)
        for stack, packed in zip(together, pack(together), strict=True):
            number = self._stream(connection, stack.layout)
            few = line if len(stack.at) == len(line) else line[stack.at]
            first = self._ledger.records.get(number, 0) + counts[number]
            rows += hot_rows(number, first, few, packed)
            counts[number] += len(stack.at)
        self._ledger.grow(counts)
        insert_rows(connection, hot, rows)
        return counts

    def _write_rare(self, connection: Connection, records: Sequence[StepRecord]) -> None:
        number = self._target.id
        shapes = [
            histogram_row(number, added, record.step, record.micro_step)
            for record in records
            for added in record.histograms
        ]
        self._ledger.count("histograms", len(shapes))
        insert_rows(connection, histogram, shapes)
        self._add_events(
            connection, [(record.step, record.micro_step, added) for record in records for added in record.events]
        )

    def _add_events(self, connection: Connection, events: Sequence[tuple[int, int, Event]]) -> None:
        """Add events, each with its step and micro-step, and their attachments."""
        number = self._target.id
        rows = [event_row(number, added, step, micro_step) for step, micro_step, added in events]
        files = [attachment_row(number, added, *at) for *at, added in events if added.attachment is not None]
        self._ledger.count("events", len(rows))
        self._ledger.count("attachments", len(files))
        insert_rows(connection, event, rows)
        insert_rows(connection, attachment, files)

    def _write_findings(self, connection: Connection, findings: Sequence[Finding]) -> None:
        if findings:
            write_findings(connection, self._target.id, findings)
            self._ledger.rows["findings"] = count_rows(connection, self._target.id, "findings")

    def _stream(self, connection: Connection, layout: Layout) -> int:
        by_identity = self._by_identity.get(id(layout))
        if by_identity is not None:
            return by_identity[1]
        number = self._streams.get(layout)
        if number is None:
            self._commits.flush_identity(connection)
            place = self._target.id, layout.subject, layout.part
            row = {"subject": layout.subject, "part": layout.part, "layout": seal(layout_bytes(layout), *place)}
            done = connection.execute(insert(stream).values(recording=self._target.id, **row))
            key = done.inserted_primary_key
            assert key is not None
            number = int(key[0])
            self._streams[layout] = number
        if len(self._by_identity) >= 256:  # a caller that creates new layouts at every step
            self._by_identity.clear()
        self._by_identity[id(layout)] = (layout, number)
        return number

    def _touch(self, connection: Connection, **values: object) -> None:
        self._last_heartbeat = time.monotonic()
        touch(connection, self._target.id, **values)


def _placed(events: Iterable[Event]) -> list[tuple[int, int, Event]]:
    return [(event.step, event.micro_step, event) for event in events]
