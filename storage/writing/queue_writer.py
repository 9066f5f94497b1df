"""The thread that writes the records of a training to its store.

The training thread appends a record to a queue. The writer thread takes all waiting records, passes them to the
listeners, writes them in one transaction and does housekeeping. What the store cannot take now waits (`Backlog`). A
failure here loses observations, never a step; lost records are counted (`Losses`) and reported by the event
`observations_lost`.

Should the work itself fail, it begins again once, without the records that it had in hand. Should it fail once more,
the thread only counts what is lost, and writes at the end how the training has ended.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..encoding.block_rounding import round_records
from ..errors import StoreError
from ..records import Event, Finding, StepRecord, check_order
from ..renamed_names import renamed_arguments
from ..run_info import Run, RunState, Structure
from ..store import FlightBuffer, Listener, RunWriter
from .backlog import MEMORY_BYTES, Backlog
from .listeners import ContainedListeners
from .losses import EVENT
from .record_queue import CAPACITY, BatchingPolicy, Item, PreviewPolicy, RecordQueue
from .retrying_writer import RetryingWriter, error_text
from .thread_memory import heap_bytes_of_this_thread

_log = logging.getLogger(__name__)

#: Seconds between two polls of the queue.
_POLL_S = 0.1
#: Polls of an empty queue between two rounds of housekeeping, which also write the heartbeat.
_IDLE_POLLS = 10
#: Seconds without an answer of the store after which the end of a run no longer waits for it.
_SILENCE_S = 5.0
#: Why records are missing that the store had acknowledged.
_TAKEN_BACK = "the database was set back: it has lost records that it had acknowledged"


@dataclass(slots=True)
class _InHand:
    """What the thread has taken from the queue and not finished.

    Attributes:
        structures: Those among it.
        records: Records that are neither written, nor kept for the store, nor counted as lost.
        unheard, undone: Items that the queue has yet to hear of.
    """

    structures: list[Structure] = field(default_factory=list)
    records: list[StepRecord] = field(default_factory=list)
    unheard: int = 0
    undone: int = 0


class QueueWriter:
    """Takes records from a training thread and writes them on its own; never raises into the training.

    Args:
        writer: Used by the writer thread alone from now on.
        listeners: Receive every record before it is written; one that fails is switched off and reported.
        capacity: Records that may wait.
        when_full: `block` makes the training wait as long as the writer makes progress; `drop` drops the oldest record
            and counts it as lost. While the store is at fault neither is done until the memory is used up.
        flight_buffer: Decides which observations outside the schedule are stored; without one, none are.
        pending: Returns what is known of the record that the training has not put yet. The writer thread calls it and
            shows the record to readers when the training pauses; listeners see it when it is put.
        backlog: Where records wait that the store cannot take now.
        more_bytes: Memory for records beyond the capacity while the store is at fault.
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
        *,
        backlog: Backlog | None = None,
        more_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._blocks = when_full == "block"
        # The thread polls the queue: waking it at every put would take the processor from the training.
        self._queue = RecordQueue(capacity, self._is_worth_waiting, self._is_at_fault, more_bytes, self._busy_s)
        self._batching, self._preview = BatchingPolicy(self._queue), PreviewPolicy(pending)
        self._listeners = ContainedListeners(listeners, flight_buffer)
        self._retrying = RetryingWriter(writer, self._queue.losses, backlog)
        self._pid = os.getpid()
        self._closing: tuple[RunState, str] | None = None
        self._last_events: tuple[Event, ...] = ()
        self._structure = Structure()
        self._has_begun = False
        self._last = (-(2**62), 0)
        self._last_step = 0
        self._put, self._last_put = 0, 0  # how many records, and the step of the last
        self._quiet = 0  # records without content that were left out
        self._written = (0, 0.0)
        self._heap_bytes = 0  # of the thread
        self._in_hand = _InHand()
        self._reported: deque[Event] = deque()
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
        """How many records are lost: dropped from a full queue, or refused by the store for good."""
        return self._queue.losses.total

    @property
    def written(self) -> tuple[int, float]:
        """Records written so far, and the processor time in seconds that the thread has spent: listeners included."""
        return self._written

    @property
    def held_bytes(self) -> int:
        """Bytes of the arrays that wait, and of the thread's own memory: histories, packed records, caches."""
        return self._queue.held_bytes + self._heap_bytes

    def put(self, record: StepRecord) -> None:
        """Put a record into the queue; return at once unless the queue is full and set to block."""
        if os.getpid() == self._pid and self._closing is None:
            self._queue.put(record)
            self._put, self._last_put = self._put + 1, record.step

    def put_structure(self, structure: Structure) -> None:
        """Put a structure into the queue; it holds for the records after it."""
        if os.getpid() == self._pid and self._closing is None:
            self._queue.put(structure)

    def report(self, event: Event) -> None:
        """Show the listeners an event and write it, though the training makes no record meanwhile; any thread may."""
        if os.getpid() == self._pid and self._closing is None:
            self._reported.append(event)

    def flush(self, timeout: float = 60.0) -> bool:
        """Wait until all records put so far are written, kept for a store that refuses them, or lost.

        Returns:
            False after `timeout` seconds.
        """
        return os.getpid() != self._pid or self._queue.wait_until_done(self._thread.is_alive, timeout)

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait until the listeners have seen all records put so far; return False after `timeout` seconds."""
        return os.getpid() != self._pid or self._queue.wait_until_heard(self._thread.is_alive, timeout)

    def close(
        self, state: RunState = "finished", error: str = "", timeout: float = 30.0, *, events: Sequence[Event] = ()
    ) -> bool:
        """Write everything and end the run; a second call does nothing.

        Returns:
            False when that takes longer than `timeout` seconds, or the store takes nothing for 5 s.

        Args:
            events: Events after the last step, which belong to no record.
        """
        if os.getpid() != self._pid:
            return True
        if self._closing is None:
            self._last_events = tuple(events)
            self._closing = (state, error)
        self._queue.wake.set()
        began = time.monotonic()
        while self._thread.is_alive() and (left := self._patience(began, timeout)) > 0:
            self._thread.join(min(left, _POLL_S))
        if not self._thread.is_alive():
            return True
        waited = time.monotonic() - began
        count = self._put - self._quiet - self._retrying.written - self.lost
        first = self._retrying.first_waiting()
        _log.error(
            "run %s: the store did not write everything within %.0f s: %d records of steps %s to %d are not written",
            *(self.run.id, waited, count, "?" if first is None else first, self._last_put),
        )
        return False

    def _patience(self, began: float, timeout: float) -> float:
        """Return for how many seconds more the end of the run waits for the writer thread."""
        now, silent = time.monotonic(), self._retrying.silent_since
        silence = 0.0 if silent is None else now - max(silent, began)
        return min(began + timeout - now, _SILENCE_S - silence)

    def _is_worth_waiting(self) -> bool:
        return self._blocks and not self._retrying.is_at_fault and self._thread.is_alive()

    def _is_at_fault(self) -> bool:
        return self._retrying.is_at_fault and self._thread.is_alive()

    def _busy_s(self) -> float:
        """Return the processor time of the writer thread in seconds; 0 where the system does not tell it."""
        try:
            text = Path(f"/proc/self/task/{self._thread.native_id}/schedstat").read_text()
            return int(text.split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    def _has_work(self) -> bool:
        """Return whether records wait; asked after each piece of housekeeping."""
        self._queue.have_worked()
        return bool(self._queue)

    def _work(self) -> None:
        """Run the writer thread: take and write waiting records until the run is closed."""
        try:
            self._begin_again_once()
        except BaseException as error:  # noqa: BLE001  the training goes on
            self._retrying.fail("the writer stopped", error)
        finally:
            self._queue.wake_all()

    def _begin_again_once(self) -> None:
        try:
            self._take_and_write()
        except BaseException as error:  # noqa: BLE001  as above
            self._give_up_in_hand("the writer failed and begins again; the records that it had are lost", error)
        else:
            return
        try:
            for structure in self._in_hand.structures[-1:]:
                self._set_structure(structure)
            self._take_and_write()
        except BaseException as error:  # noqa: BLE001  as above
            self._give_up_in_hand("the writer failed again; all further records are lost", error)
            self._count_until_closed()

    def _take_and_write(self) -> None:
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
                self._batching.have_handled()
            elif is_open and self._reported:
                self._write_reported()
            elif is_open and not self._queue and (shown := self._preview.poll()) is not None:
                self._retrying.preview(replace(shown, beside=None))
            if idle % _IDLE_POLLS == 0:
                self._retrying.do_housekeeping(self._has_work)
            self._written = self._written[0] + len(items), time.thread_time()
            if items or idle % _IDLE_POLLS == 0:
                self._heap_bytes = heap_bytes_of_this_thread()
        self._end(*(self._closing or ("finished", "")))

    def _begin_listeners(self, step: int) -> None:
        """Show the listeners the structure, before the first of anything else."""
        if not self._has_begun:
            self._has_begun = True
            self._listeners.begin(self.run, self._structure, step)

    def _write_reported(self) -> None:
        """Show the listeners what was reported, and write it with their findings."""
        events = []
        while self._reported:
            events.append(self._reported.popleft())
        self._begin_listeners(events[0].step)
        findings = self._listeners.findings(StepRecord(self._last_step, time.time(), events=tuple(events)))
        self._retrying.report(findings)
        self._retrying.write((), findings)
        self._retrying.write_events(events)

    def _give_up_in_hand(self, failure: str, error: BaseException) -> None:
        """Count the records as lost that were taken and neither written nor counted."""
        self._retrying.fail(failure, error, lasting=False)
        hand = self._in_hand
        self._queue.losses.add(hand.records, error_text(error))
        self._queue.have_heard(hand.unheard)
        self._queue.have_done(hand.undone)
        self._in_hand = _InHand(structures=hand.structures)

    def _count_until_closed(self) -> None:
        """Count what is put as lost; write, when the run is closed, how the training has ended."""
        is_open = True
        while is_open:
            self._queue.wake.wait(_POLL_S)
            self._queue.wake.clear()
            is_open = self._closing is None
            items = self._queue.take()
            self._queue.losses.add(item for item in items if isinstance(item, StepRecord))
            self._queue.have_heard(len(items))
            self._queue.have_done(len(items))
        self._retrying.make_room()
        self._retrying.deliver_rest()
        self._report_losses()
        state, error = self._closing or ("finished", "")
        self._retrying.close(state, error, (*self._listeners.take_notices(), *self._last_events))

    def _handle(self, items: list[Item], quiet: int) -> None:
        """Write records up to the next structure in one transaction; `quiet` counts skipped records without content."""
        self._in_hand = _InHand(
            [item for item in items if isinstance(item, Structure)],
            [item for item in items if isinstance(item, StepRecord)],
            len(items) + quiet,
            len(items) + quiet,
        )
        for structure in self._queue.take_rescued():
            self._set_structure(structure)
        records: list[StepRecord] = []
        for item in items:
            if isinstance(item, Structure):
                self._write(records)
                records = []
                self._set_structure(item)
                self._heard(1)
            else:
                records.append(item)
        self._write(records)
        if quiet:
            self._quiet += quiet
            self._heard(quiet)
        self._in_hand = _InHand()
        self._queue.have_done(len(items) + quiet)

    def _heard(self, count: int) -> None:
        self._in_hand.unheard -= count
        self._queue.have_heard(count)

    def _set_structure(self, structure: Structure) -> None:
        self._structure = structure
        self._has_begun = True
        self._retrying.write_structure(structure)
        self._listeners.begin(self.run, structure, self._last_step)

    def _write(self, records: list[StepRecord]) -> None:
        """Show records to the listeners, write them with the findings, and count lost ones."""
        if not records:
            return
        self._begin_listeners(records[0].step)
        rounded = list(round_records(records))
        self._listeners.foresee([result for result in rounded if isinstance(result, StepRecord)])
        findings: list[Finding] = []
        ready: list[StepRecord] = []
        earlier: list[StepRecord] = []
        for record, result in zip(records, rounded, strict=True):
            noted = self._noted(record, result)
            if noted is not None:
                found = self._listeners.findings(noted)
                now, after_all = self._listeners.sort(noted, found)
                ready.append(now)
                earlier += after_all
                findings += found
        self._retrying.report(findings)
        self._heard(len(records))
        if ready:
            self._retrying.write(ready, findings, earlier)
        self._in_hand.records = self._in_hand.records[len(records) :]
        self._count_missing()

    def _count_missing(self) -> None:
        """Count records that the store had acknowledged and has lost."""
        missing = self._retrying.take_missing()
        if missing is None:
            return
        if missing.count > 0:  # else records that were counted as lost are stored after all
            words = "run %s: the database lost %d records of steps %d to %d"
            _log.error(words, self.run.id, missing.count, missing.first_step, missing.last_step)
        self._queue.losses.count(missing.count, missing.first_step, missing.last_step, _TAKEN_BACK)

    def _noted(self, record: StepRecord, rounded: StepRecord | Exception) -> StepRecord | None:
        """Return the rounded record with the pending notices; None if it is lost."""
        try:
            check_order(self.run.id, self._last, (record,))
            if isinstance(rounded, Exception):
                raise rounded
        except (StoreError, TypeError, ValueError) as error:
            self._retrying.fail(f"the record of step {record.step} is lost", error, lasting=False)
            self._queue.losses.add((record,), error_text(error))
            return None
        self._last, self._last_step = (int(record.step), int(record.micro_step)), int(record.step)
        if self._retrying.fault is None:  # a store that cannot be written would lose this event as well
            self._report_losses()
        notices = self._listeners.take_notices()
        return replace(rounded, events=(*rounded.events, *notices)) if notices else rounded

    def _report_losses(self) -> None:
        """Add the event `observations_lost` to the notices if records were lost since the last such event."""
        if data := self._queue.losses.take():
            self._listeners.notices.append(Event(EVENT, self._last_step, data=data))

    def _end(self, state: RunState, error: str) -> None:
        self._retrying.make_room()
        self._retrying.deliver_rest()
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
        self._count_missing()
