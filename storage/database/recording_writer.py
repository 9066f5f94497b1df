"""Writes one recording with SQLAlchemy Core, one transaction per call, for SQLite and PostgreSQL."""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol

from sqlalchemy import Connection, insert

from ..encoding.record_codec import histogram_bytes, layout_bytes, outcome_text, structure_bytes
from ..errors import StoreError
from ..history.archive_chunks import LENGTH
from ..history.block_stacks import BlockStack, ScalarStreams, pack, stack_blocks, stack_steps
from ..history.compaction import Compactor, Retention, take_apart
from ..history.hot_records import RecordTimes, count_hot, hot_rows, read_newest
from ..records import Event, Finding, Layout, Outcome, StepRecord, check_earlier, check_order
from ..run_info import Run, RunState, Structure
from ..schema.connect import store_errors
from ..schema.row_statements import (
    EARLIER,
    STEP_LAYOUT,
    insert_rows,
    keep_former,
    read_streams,
    remove_record,
    replace_rows,
    touch,
)
from ..schema.table_definitions import event, histogram, hot, outcome, stream
from .rank_recording import RankRecording, event_row, write_findings

_log = logging.getLogger(__name__)
#: Seconds between the heartbeats of a writer that has nothing to write.
HEARTBEAT_S = 10.0
#: Records of a stream that are compacted when the run ends; fewer would take as much room in chunks.
_REST = 16


class Housekeeping(Protocol):
    """The housekeeping that differs between a file and a database."""

    def check(self, *, growing: bool) -> None:
        """Check that the store can be written; raise `StoreUnavailable` when it is gone or has no room to grow."""

    def tidy(self) -> bool:
        """Do one bounded piece (checkpoint, vacuum); return True when more is waiting."""

    def make_room(self) -> None:
        """Free the disk space that is reserved for the end of a run."""

    def release(self) -> None:
        """Close the connection."""


class RecordingWriter:
    """The `RunWriter` of a database; used by one thread, inert in a forked child."""

    def __init__(self, target: RankRecording, run: Run, housekeeping: Housekeeping, retention: Retention) -> None:
        self._target = target
        self._housekeeping = housekeeping
        self._pid = os.getpid()
        self._run = run
        self._closed = False
        self._last_heartbeat = time.monotonic()
        with store_errors(target.location), target.engine.begin() as connection:
            streams = read_streams(connection, target.id)
            take_apart(connection, streams)
            hot_records = count_hot(connection, target.id)
            steps = next((known.id for known in streams if known.layout == STEP_LAYOUT), None)
            newest = None if steps is None else read_newest(connection, steps)
        self._streams = {known.layout: known.id for known in streams}
        self._scalars = ScalarStreams(self._streams)
        self._earlier_scalars = ScalarStreams(self._streams, EARLIER)
        self._by_identity: dict[int, tuple[Layout, int]] = {}
        self._last = self._joined_last = (run.last_step, newest[1] if newest else 0)
        self._shown: tuple[int, int] | None = None  # the previewed record, which is not final
        self._upkeep = Compactor(target.id, hot_records, retention)

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._run

    def write_structure(self, structure: Structure) -> None:
        """Replace the recorded structure; earlier records keep the former one."""
        data = structure_bytes(structure)
        with self._transaction() as connection:
            keep_former(connection, self._target.id, data, self._last)
            self._touch(connection, structure=data)

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding] = (), earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Add records, findings and further observations of earlier records in one transaction.

        Raises:
            StoreError: A record does not come after the last one; nothing was written.
        """
        last = check_order(self._run.id, self._last, records)
        joined_last = check_earlier(self._run.id, self._joined_last, last, earlier)
        with self._transaction(growing=bool(records or earlier)) as connection:
            if records:
                self._take_back(connection)
            now = self._stacks(records)
            later = chain(stack_blocks(earlier, is_earlier=True), self._earlier_scalars.stack(earlier))
            written = self._write_hot(connection, records, now) + self._write_hot(connection, earlier, later)
            self._write_rare(connection, records)
            write_findings(connection, self._target.id, findings)
            self._touch(connection, last_step=last[0])
        self._last, self._joined_last = last, joined_last
        self._shown = None if records else self._shown
        self._upkeep.grow(written)

    def preview(self, record: StepRecord) -> None:
        """Show a record that is not final.

        Raises:
            StoreError: It does not come after the last one.
        """
        shown = check_order(self._run.id, self._last, (record,))
        with self._transaction(growing=True) as connection:
            self._take_back(connection)
            self._write_hot(connection, (record,), self._stacks((record,)))
            self._write_rare(connection, (record,))
            self._touch(connection, last_step=shown[0])
        self._shown = shown

    def write_events(self, events: Sequence[Event]) -> None:
        """Add events that belong to no record."""
        with self._transaction() as connection:
            rows = [event_row(self._target.id, added, added.step, added.micro_step) for added in events]
            insert_rows(connection, event, rows)
            self._touch(connection)

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes in one transaction; one of the same attack, norm and epsilon replaces the earlier."""
        rows = [
            {
                "attack": added.attack,
                "norm": added.norm,
                "epsilon": repr(float(added.epsilon)),
                "data": outcome_text(added),
            }
            for added in outcomes
        ]
        with self._transaction() as connection:
            replace_rows(connection, outcome, self._target.id, rows, ("attack", "norm", "epsilon"))
            self._touch(connection)

    def maintain(self) -> bool:
        """Do one bounded piece of housekeeping; return True when more is waiting."""
        if self._closed or os.getpid() != self._pid:
            return False
        if self._compact_some(LENGTH):
            return True
        if time.monotonic() - self._last_heartbeat > HEARTBEAT_S:
            with self._transaction() as connection:
                self._touch(connection)
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
            with self._transaction() as connection:
                self._touch(connection, state=state, error=error, writer="")
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
        with self._transaction() as connection:
            self._upkeep.run(connection, self._streams, least)
        return True

    def _compact_rest(self) -> None:
        """Compact the records that are too few for a whole chunk; leave them uncompressed on a full disk."""
        try:
            while self._compact_some(_REST):
                pass
        except StoreError as error:
            _log.warning("run %s: its newest records stay uncompressed: %s", self._run.id, error)

    @contextmanager
    def _transaction(self, *, growing: bool = False) -> Iterator[Connection]:
        if self._closed:
            raise StoreError(f"run {self._run.id!r} is closed; nothing more can be written to it")
        if os.getpid() != self._pid:
            raise StoreError(f"run {self._run.id!r} belongs to process {self._pid}; this is its forked child")
        self._housekeeping.check(growing=growing)
        known = dict(self._streams)
        try:
            with store_errors(self._target.location), self._target.engine.begin() as connection:
                yield connection
        except BaseException:
            self._streams = known  # the streams of this transaction were rolled back
            self._by_identity.clear()
            raise

    def _take_back(self, connection: Connection) -> None:
        """Remove the previewed record, if there is one."""
        if self._shown is not None:
            remove_record(connection, self._target.id, *self._shown)

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
            rows += hot_rows(number, few, packed)
            counts[number] += len(stack.at)
        insert_rows(connection, hot, rows)
        return counts

    def _write_rare(self, connection: Connection, records: Sequence[StepRecord]) -> None:
        number = self._target.id
        shapes = [
            {
                "recording": number,
                "step": int(record.step),
                "micro_step": int(record.micro_step),
                "site": added.site,
                "subject": added.subject,
                "call": added.call,
                "data": histogram_bytes(added),
            }
            for record in records
            for added in record.histograms
        ]
        events = [
            event_row(number, added, record.step, record.micro_step) for record in records for added in record.events
        ]
        insert_rows(connection, histogram, shapes)
        insert_rows(connection, event, events)

    def _stream(self, connection: Connection, layout: Layout) -> int:
        by_identity = self._by_identity.get(id(layout))
        if by_identity is not None:
            return by_identity[1]
        number = self._streams.get(layout)
        if number is None:
            row = {"subject": layout.subject, "part": layout.part, "layout": layout_bytes(layout)}
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
