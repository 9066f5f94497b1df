"""The queue between a training and its store, and the one thread that writes.

The training thread pays for one append. The thread takes all that waits, shows it to the listeners, writes it in one
transaction and keeps the house in order. Whatever fails here costs observations, which are counted, and never a step.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from ..encoding.rounding import round_records
from ..errors import StoreError
from ..order import check_order
from ..records import Event, Finding, Json, StepRecord
from ..run import Run, RunState, Structure
from ..store import Keeper, Listener, RunWriter
from .audience import Audience
from .backlog import CAPACITY, Backlog, Item
from .outlet import Outlet
from .patience import Patience
from .pause import Pause

_log = logging.getLogger(__name__)

#: How often the thread looks whether something waits, and for how long.
_LOOK_S = 0.1
#: Looks at an empty queue from one housekeeping to the next, which also gives the sign of life.
_IDLE_LOOKS = 10


class QueueWriter:
    """Takes records from a training thread and writes them on its own; never raises into the training.

    Args:
        writer: Used by the thread alone from now on.
        listeners: See every record before it is written; one that fails is switched off and reported.
        capacity: Records that may wait.
        keeper: Decides what of observations beside the schedule is stored; without one none is.
        held: What is known of the record that the training holds back; asked by the thread, which lets readers see it
            when the training pauses. Listeners see it when it is put.
        when_full: `block` makes the training wait as long as the writer makes progress; `drop`, and `block` before a
            store that cannot be written, lose the oldest record and count it.
    """

    def __init__(
        self,
        writer: RunWriter,
        listeners: Sequence[Listener] = (),
        capacity: int = CAPACITY,
        when_full: Literal["block", "drop"] = "block",
        keeper: Keeper | None = None,
        held: Callable[[], StepRecord | None] = lambda: None,
    ) -> None:
        self._blocks = when_full == "block"
        # The thread looks at the queue by itself: waking it at every put would let it take the training's processor.
        self._backlog = Backlog(capacity, self._is_worth_waiting)
        self._patience, self._pause = Patience(self._backlog), Pause(held)
        self._audience = Audience(listeners, keeper)
        self._outlet = Outlet(writer)
        self._pid = os.getpid()
        self._closing: tuple[RunState, str] | None = None
        self._last_events: tuple[Event, ...] = ()
        self._structure = Structure()
        self._has_begun = False
        self._last = (-(2**62), 0)
        self._last_step = 0
        self._refusal = ""  # why the store did not take what was lost since the last word of it
        self._telling = 0  # losses of which the records tell that are being written
        self._thread = threading.Thread(target=self._work, name="mindscope-writer", daemon=True)
        self._thread.start()

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._outlet.run

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the listeners have found so far."""
        return tuple(self._outlet.found)

    @property
    def fault(self) -> BaseException | None:
        """What keeps the store from being written at present; None when all is well."""
        return self._outlet.fault

    @property
    def lost(self) -> int:
        """Records that were not written: dropped from a full queue, or refused by the store."""
        return self._backlog.lost

    def put(self, record: StepRecord) -> None:
        """Hands a record over; returns at once unless the queue is full and set to block."""
        if os.getpid() == self._pid and self._closing is None:
            self._backlog.put(record)

    def put_structure(self, structure: Structure) -> None:
        """Hands a structure over; it holds for the records after it."""
        if os.getpid() == self._pid and self._closing is None:
            self._backlog.put(structure)

    def flush(self, timeout: float = 60.0) -> bool:
        """True when all that was put before this call is written or lost; False when the time was not enough."""
        return os.getpid() != self._pid or self._backlog.wait_until_done(self._thread.is_alive, timeout)

    def settle(self, timeout: float = 60.0) -> bool:
        """True when the listeners have seen all that was put before this call, written or not; as `flush` otherwise."""
        return os.getpid() != self._pid or self._backlog.wait_until_heard(self._thread.is_alive, timeout)

    def close(
        self, state: RunState = "finished", error: str = "", timeout: float = 30.0, *, events: Sequence[Event] = ()
    ) -> bool:
        """True when everything is written and the run is ended; gives up after `timeout` seconds, then False.

        A second call does nothing more.

        Args:
            events: What happened behind the last step, and is part of no record.
        """
        if os.getpid() != self._pid:
            return True
        if self._closing is None:
            self._last_events = tuple(events)
            self._closing = (state, error)
        self._backlog.wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            _log.error("run %s: the store did not take everything within %.0f s", self.run.id, timeout)
            return False
        return True

    def _is_worth_waiting(self) -> bool:
        return self._blocks and self._outlet.fault is None and self._thread.is_alive()

    def _work(self) -> None:
        """The thread: takes all that waits until the run is closed."""
        try:
            is_open, idle = True, 0
            while is_open:
                is_awaited = self._backlog.wake.wait(_LOOK_S)
                self._backlog.wake.clear()
                is_open = self._closing is None  # read first: what was put before the end is in the queue by now
                items: list[Item] = []
                quiet = 0
                if is_awaited or not is_open or self._patience.is_over():
                    items, quiet = self._patience.take()
                idle = 0 if items else idle + 1
                if items:
                    self._handle(items, quiet)
                elif is_open and not self._backlog and (shown := self._pause.look()) is not None:
                    self._outlet.preview(replace(shown, beside=None))
                if idle % _IDLE_LOOKS == 0:
                    self._outlet.keep_house(lambda: bool(self._backlog))
            self._end(*(self._closing or ("finished", "")))
        except BaseException as error:  # noqa: BLE001  the training must not notice
            self._outlet.fail("the writer stopped", error)
        finally:
            self._backlog.wake_all()

    def _handle(self, items: list[Item], quiet: int) -> None:
        """Writes what was taken: records up to the next structure in one transaction; so many more said nothing."""
        for structure in self._backlog.take_rescued():
            self._set_structure(structure)
        records: list[StepRecord] = []
        for item in items:
            if isinstance(item, Structure):
                self._write(records)
                records = []
                self._set_structure(item)
                self._backlog.have_heard(1)
            else:
                records.append(item)
        self._write(records)
        if quiet:
            self._backlog.have_heard(quiet)
        self._backlog.have_done(len(items) + quiet)

    def _set_structure(self, structure: Structure) -> None:
        self._structure = structure
        self._has_begun = True
        self._outlet.write_structure(structure)
        self._audience.begin(self.run, structure, self._last_step)

    def _write(self, records: list[StepRecord]) -> None:
        """Shows records to the listeners and writes them with what was found; lost ones are counted."""
        if not records:
            return
        if not self._has_begun:
            self._has_begun = True
            self._audience.begin(self.run, self._structure, records[0].step)
        rounded = list(round_records(records))
        self._audience.foresee([one for one in rounded if isinstance(one, StepRecord)])
        findings: list[Finding] = []
        ready: list[StepRecord] = []
        earlier: list[StepRecord] = []
        self._telling = 0
        for record, one in zip(records, rounded, strict=True):
            noted = self._noted(record, one)
            if noted is not None:
                found = self._audience.findings(noted)
                now, after_all = self._audience.sort(noted, found)
                ready.append(now)
                earlier += after_all
                findings += found
        self._outlet.tell(findings)
        self._backlog.have_heard(len(records))
        if ready and not self._outlet.write(ready, findings, earlier):
            self._refusal = _words(self._outlet.fault)
            self._backlog.lose(len(ready), told=self._telling)

    def _noted(self, record: StepRecord, rounded: StepRecord | Exception) -> StepRecord | None:
        """The rounded record with what happened to the monitor meanwhile; None if it is lost."""
        try:
            check_order(self.run.id, self._last, (record,))
            if isinstance(rounded, Exception):
                raise rounded
        except (StoreError, TypeError, ValueError) as error:
            self._outlet.fail(f"the record of step {record.step} is lost", error, lasting=False)
            self._refusal = _words(error)
            self._backlog.lose(1)
            return None
        self._last, self._last_step = (int(record.step), int(record.micro_step)), int(record.step)
        if self._outlet.fault is None:  # a store that cannot be written would lose this word as well
            self._tell_losses()
        notices = self._audience.take_notices()
        return replace(rounded, events=(*rounded.events, *notices)) if notices else rounded

    def _tell_losses(self) -> None:
        """Nothing; the next record, or the end of the run, tells how many were lost since the last time."""
        if untold := self._backlog.take_untold():
            self._telling += untold
            why, self._refusal = self._refusal, ""
            data: dict[str, Json] = {"count": untold, "error": why} if why else {"count": untold}
            self._audience.notices.append(Event("observations_lost", self._last_step, data=data))

    def _end(self, state: RunState, error: str) -> None:
        self._outlet.make_room()
        self._tell_losses()
        last: list[Finding] = []
        events = (*self._audience.notices, *self._last_events)
        if events:  # no record will carry them any more
            last += self._audience.findings(StepRecord(self._last_step, time.time(), events=events))
        last += self._audience.last_findings(self._last_step)
        rest = self._audience.rest(last, self._last_step, failed=state == "failed")
        self._outlet.tell(last)
        self._outlet.write((), last, rest)
        self._outlet.close(state, error, (*self._audience.take_notices(), *self._last_events))


def _words(error: BaseException | None) -> str:
    """The error as text that any store takes."""
    said = "" if error is None else f"{type(error).__name__}: {error}"
    return said.encode(errors="backslashreplace").decode()
