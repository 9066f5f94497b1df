"""The thread that writes the records of a training to its store.

The training thread appends a record to a queue. The writer thread takes all waiting records, passes them to the
listeners, writes them in one transaction and does housekeeping. A failure here loses observations, never a step; lost
records are counted (`RecordQueue.lost`) and reported by the event `observations_lost`.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from ..encoding.block_rounding import round_records
from ..errors import StoreError
from ..records import Event, Finding, Json, StepRecord, check_order
from ..renamed_names import renamed_arguments
from ..run_info import Run, RunState, Structure
from ..store import FlightBuffer, Listener, RunWriter
from .listeners import Listeners
from .record_queue import CAPACITY, BatchingPolicy, Item, PreviewPolicy, RecordQueue
from .retrying_writer import RetryingWriter

_log = logging.getLogger(__name__)

#: Seconds between two polls of the queue.
_POLL_S = 0.1
#: Polls of an empty queue between two rounds of housekeeping, which also write the heartbeat.
_IDLE_POLLS = 10


class QueueWriter:
    """Takes records from a training thread and writes them on its own; never raises into the training.

    Args:
        writer: Used by the writer thread alone from now on.
        listeners: Receive every record before it is written; one that fails is switched off and reported.
        capacity: Records that may wait.
        when_full: `block` makes the training wait as long as the writer makes progress. `drop`, and `block` when the
            store cannot be written, drop the oldest record and count it as lost.
        flight_buffer: Decides which observations outside the schedule are stored; without one, none are.
        pending: Returns what is known of the record that the training has not put yet. The writer thread calls it and
            shows the record to readers when the training pauses; listeners see it when it is put.
    """

    @renamed_arguments(keeper="flight_buffer", held="pending")
    def __init__(
        self,
        writer: RunWriter,
        listeners: Sequence[Listener] = (),
        capacity: int = CAPACITY,
        when_full: Literal["block", "drop"] = "block",
        flight_buffer: FlightBuffer | None = None,
        pending: Callable[[], StepRecord | None] = lambda: None,
    ) -> None:
        self._blocks = when_full == "block"
        # The thread polls the queue: waking it at every put would take the processor from the training.
        self._queue = RecordQueue(capacity, self._is_worth_waiting)
        self._batching, self._preview = BatchingPolicy(self._queue), PreviewPolicy(pending)
        self._listeners = Listeners(listeners, flight_buffer)
        self._retrying = RetryingWriter(writer)
        self._pid = os.getpid()
        self._closing: tuple[RunState, str] | None = None
        self._last_events: tuple[Event, ...] = ()
        self._structure = Structure()
        self._has_begun = False
        self._last = (-(2**62), 0)
        self._last_step = 0
        self._refusal = ""  # why the store refused the records that no event has reported yet
        self._reported = 0  # lost records that the events of the current transaction report
        self._written = (0, 0.0)
        self._thread = threading.Thread(target=self._work, name="mindscope-writer", daemon=True)
        self._thread.start()

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._retrying.run

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the listeners so far."""
        return tuple(self._retrying.found)

    @property
    def fault(self) -> BaseException | None:
        """The error that keeps the store from being written now; None when all is well."""
        return self._retrying.fault

    @property
    def lost(self) -> int:
        """How many records were not written: dropped from a full queue, or refused by the store."""
        return self._queue.lost

    @property
    def written(self) -> tuple[int, float]:
        """Records written so far, and the processor time in seconds that the thread has spent: listeners included."""
        return self._written

    def put(self, record: StepRecord) -> None:
        """Put a record into the queue; return at once unless the queue is full and set to block."""
        if os.getpid() == self._pid and self._closing is None:
            self._queue.put(record)

    def put_structure(self, structure: Structure) -> None:
        """Put a structure into the queue; it holds for the records after it."""
        if os.getpid() == self._pid and self._closing is None:
            self._queue.put(structure)

    def flush(self, timeout: float = 60.0) -> bool:
        """Wait until all records put so far are written or lost; return False after `timeout` seconds."""
        return os.getpid() != self._pid or self._queue.wait_until_done(self._thread.is_alive, timeout)

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait until the listeners have seen all records put so far; return False after `timeout` seconds."""
        return os.getpid() != self._pid or self._queue.wait_until_heard(self._thread.is_alive, timeout)

    def close(
        self, state: RunState = "finished", error: str = "", timeout: float = 30.0, *, events: Sequence[Event] = ()
    ) -> bool:
        """Write everything and end the run; return False when that takes longer than `timeout` seconds.

        A second call does nothing.

        Args:
            events: Events after the last step, which belong to no record.
        """
        if os.getpid() != self._pid:
            return True
        if self._closing is None:
            self._last_events = tuple(events)
            self._closing = (state, error)
        self._queue.wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            _log.error("run %s: the store did not write everything within %.0f s", self.run.id, timeout)
            return False
        return True

    def _is_worth_waiting(self) -> bool:
        return self._blocks and self._retrying.fault is None and self._thread.is_alive()

    def _work(self) -> None:
        """Run the writer thread: take and write waiting records until the run is closed."""
        try:
            is_open, idle = True, 0
            while is_open:
                is_awaited = self._queue.wake.wait(_POLL_S)
                self._queue.wake.clear()
                is_open = self._closing is None  # read first: all records put before the end are in the queue by now
                items: list[Item] = []
                quiet = 0
                if is_awaited or not is_open or self._batching.is_over():
                    items, quiet = self._batching.take()
                idle = 0 if items else idle + 1
                if items:
                    self._handle(items, quiet)
                elif is_open and not self._queue and (shown := self._preview.poll()) is not None:
                    self._retrying.preview(replace(shown, beside=None))
                if idle % _IDLE_POLLS == 0:
                    self._retrying.do_housekeeping(lambda: bool(self._queue))
                self._written = self._written[0] + len(items), time.thread_time()
            self._end(*(self._closing or ("finished", "")))
        except BaseException as error:  # noqa: BLE001  the training goes on
            self._retrying.fail("the writer stopped", error)
        finally:
            self._queue.wake_all()

    def _handle(self, items: list[Item], quiet: int) -> None:
        """Write records up to the next structure in one transaction; `quiet` counts skipped records without content."""
        for structure in self._queue.take_rescued():
            self._set_structure(structure)
        records: list[StepRecord] = []
        for item in items:
            if isinstance(item, Structure):
                self._write(records)
                records = []
                self._set_structure(item)
                self._queue.have_heard(1)
            else:
                records.append(item)
        self._write(records)
        if quiet:
            self._queue.have_heard(quiet)
        self._queue.have_done(len(items) + quiet)

    def _set_structure(self, structure: Structure) -> None:
        self._structure = structure
        self._has_begun = True
        self._retrying.write_structure(structure)
        self._listeners.begin(self.run, structure, self._last_step)

    def _write(self, records: list[StepRecord]) -> None:
        """Show records to the listeners, write them with the findings, and count lost ones."""
        if not records:
            return
        if not self._has_begun:
            self._has_begun = True
            self._listeners.begin(self.run, self._structure, records[0].step)
        rounded = list(round_records(records))
        self._listeners.foresee([result for result in rounded if isinstance(result, StepRecord)])
        findings: list[Finding] = []
        ready: list[StepRecord] = []
        earlier: list[StepRecord] = []
        self._reported = 0
        for record, result in zip(records, rounded, strict=True):
            noted = self._noted(record, result)
            if noted is not None:
                found = self._listeners.findings(noted)
                now, after_all = self._listeners.sort(noted, found)
                ready.append(now)
                earlier += after_all
                findings += found
        self._retrying.report(findings)
        self._queue.have_heard(len(records))
        if ready and not self._retrying.write(ready, findings, earlier):
            self._refusal = _error_text(self._retrying.fault)
            self._queue.lose(len(ready), unreported=self._reported)

    def _noted(self, record: StepRecord, rounded: StepRecord | Exception) -> StepRecord | None:
        """Return the rounded record with the pending notices; None if it is lost."""
        try:
            check_order(self.run.id, self._last, (record,))
            if isinstance(rounded, Exception):
                raise rounded
        except (StoreError, TypeError, ValueError) as error:
            self._retrying.fail(f"the record of step {record.step} is lost", error, lasting=False)
            self._refusal = _error_text(error)
            self._queue.lose(1)
            return None
        self._last, self._last_step = (int(record.step), int(record.micro_step)), int(record.step)
        if self._retrying.fault is None:  # a store that cannot be written would lose this event as well
            self._report_losses()
        notices = self._listeners.take_notices()
        return replace(rounded, events=(*rounded.events, *notices)) if notices else rounded

    def _report_losses(self) -> None:
        """Add the event `observations_lost` to the notices if records were lost since the last such event."""
        if unreported := self._queue.take_unreported():
            self._reported += unreported
            reason, self._refusal = self._refusal, ""
            data: dict[str, Json] = {"count": unreported, "error": reason} if reason else {"count": unreported}
            self._listeners.notices.append(Event("observations_lost", self._last_step, data=data))

    def _end(self, state: RunState, error: str) -> None:
        self._retrying.make_room()
        self._report_losses()
        last: list[Finding] = []
        events = (*self._listeners.notices, *self._last_events)
        if events:  # no record will carry them
            last += self._listeners.findings(StepRecord(self._last_step, time.time(), events=events))
        last += self._listeners.last_findings(self._last_step)
        rest = self._listeners.rest(last, self._last_step, failed=state == "failed")
        self._retrying.report(last)
        self._retrying.write((), last, rest)
        self._retrying.close(state, error, (*self._listeners.take_notices(), *self._last_events))


def _error_text(error: BaseException | None) -> str:
    """Return the error as text that every store can encode."""
    text = "" if error is None else f"{type(error).__name__}: {error}"
    return text.encode(errors="backslashreplace").decode()
