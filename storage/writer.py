"""The queue between a training and its store, and the one thread that writes.

The training thread pays for one append. The thread takes all that waits, shows it to the listeners, writes it in one
transaction and keeps the house in order. Whatever fails here costs observations, which are counted, and never a step.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from .errors import StoreError
from .layout import quantize, quantize_alike
from .names import display_site
from .order import check_order
from .records import Block, Event, Finding, FindingKey, Json, StepRecord
from .run import Run, RunState, Structure
from .store import Keeper, Listener, RunWriter

_log = logging.getLogger(__name__)

#: How often the thread looks whether records wait; what it then finds goes into one transaction.
_LOOK_S = 0.05
#: How long a training waits at a full queue for a writer that makes no progress; then it loses observations instead.
_PATIENCE_S = 5.0
#: Looks at an empty queue from one housekeeping to the next, which also gives the sign of life.
_IDLE_LOOKS = 20
#: Findings that are kept for a store that cannot be written.
_OWED = 1000


class QueueWriter:
    """Takes records from a training thread and writes them on its own; never raises into the training.

    Args:
        writer: Used by the thread alone from now on.
        listeners: See every record before it is written; one that fails is switched off and reported.
        capacity: Records that may wait.
        keeper: Decides what of observations beside the schedule is stored; without one none is.
        when_full: `block` makes the training wait as long as the writer makes progress; `drop`, and `block` before a
            store that cannot be written, lose the oldest record and count it.
    """

    def __init__(
        self,
        writer: RunWriter,
        listeners: Sequence[Listener] = (),
        capacity: int = 64,
        when_full: Literal["block", "drop"] = "block",
        keeper: Keeper | None = None,
    ) -> None:
        if capacity < 1:
            raise StoreError(f"the queue expects a capacity of 1 or more, got {capacity}")
        self._writer = writer
        self._listeners = list(listeners)
        self._keeper = keeper
        self._capacity = capacity
        self._blocks = when_full == "block"
        self._pid = os.getpid()
        # The thread looks at the queue by itself: waking it at every put would let it take the training's processor.
        self._waiting: deque[StepRecord | Structure] = deque()
        self._wake = threading.Event()
        self._rescued: list[Structure] = []
        self._changed = threading.Condition(threading.Lock())
        self._accepted = 0  # put so far
        self._heard = 0  # of these shown to the listeners or lost
        self._done = 0  # of these written or lost
        self._lost = 0
        self._untold = 0  # lost, and not yet recorded as an event
        self._telling = 0  # of these, in events of the records that are being written
        self._stalled = False  # the training has waited in vain since the writer last finished something
        self._closing: tuple[RunState, str] | None = None
        self._last_events: tuple[Event, ...] = ()
        self._begun = False
        self._found: list[Finding] = []
        self._told: set[FindingKey] = set()
        self._fault: BaseException | None = None
        self._last = (-(2**62), 0)
        self._last_step = 0
        self._notices: list[Event] = []
        self._owed: list[Finding] = []  # which the store could not take
        self._structure = Structure()
        self._thread = threading.Thread(target=self._work, name="mindscope-writer", daemon=True)
        self._thread.start()

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._writer.run

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the listeners have found so far."""
        return tuple(self._found)

    @property
    def fault(self) -> BaseException | None:
        """What keeps the store from being written at present; None when all is well."""
        return self._fault

    @property
    def lost(self) -> int:
        """Records that were not written: dropped from a full queue, or refused by the store."""
        return self._lost

    def put(self, record: StepRecord) -> None:
        """Hands a record over; returns at once unless the queue is full and set to block."""
        self._put(record)

    def put_structure(self, structure: Structure) -> None:
        """Hands a structure over; it holds for the records after it."""
        self._put(structure)

    def flush(self, timeout: float = 60.0) -> bool:
        """True when all that was put before this call is written or lost; False when the time was not enough."""
        return self._wait_for(lambda target: self._done >= target, timeout)

    def settle(self, timeout: float = 60.0) -> bool:
        """True when the listeners have seen all that was put before this call, written or not; as `flush` otherwise."""
        return self._wait_for(lambda target: self._heard >= target, timeout)

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
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            _log.error("run %s: the store did not take everything within %.0f s", self.run.id, timeout)
            return False
        return True

    def _wait_for(self, is_reached: Callable[[int], bool], timeout: float) -> bool:
        if os.getpid() != self._pid:
            return True
        self._wake.set()
        with self._changed:
            target = self._accepted
            return self._changed.wait_for(lambda: is_reached(target) or not self._thread.is_alive(), timeout)

    def _put(self, item: StepRecord | Structure) -> None:
        if os.getpid() != self._pid or self._closing is not None:
            return
        if self._accepted - self._done >= self._capacity:
            self._make_room()
        self._accepted += 1
        self._waiting.append(item)

    def _make_room(self) -> None:
        """Waits for room, or loses the oldest record; a structure is never lost."""
        if self._waits_for_room():
            return
        try:
            oldest = self._waiting.popleft()
        except IndexError:
            return
        with self._changed:
            self._done += 1
            self._heard += 1
            if isinstance(oldest, Structure):
                self._rescued.append(oldest)
            else:
                self._lose(1)

    def _waits_for_room(self) -> bool:
        """True when waiting was right and there is room now."""
        if not self._blocks or self._stalled or self._fault is not None or not self._thread.is_alive():
            return False
        self._wake.set()
        with self._changed:
            self._stalled = not self._changed.wait_for(self._has_room, _PATIENCE_S)
        return not self._stalled and self._thread.is_alive()

    def _has_room(self) -> bool:
        return self._accepted - self._done < self._capacity or not self._thread.is_alive()

    def _lose(self, count: int) -> None:
        self._lost += count
        self._untold += count

    def _work(self) -> None:
        """The thread: takes all that waits until the run is closed."""
        try:
            is_open, idle = True, 0
            while is_open:
                items, is_open = self._take()
                idle = 0 if items else idle + 1
                if items:
                    self._handle(items)
                if idle % _IDLE_LOOKS == 0:
                    self._keep_house()
            self._end(*(self._closing or ("finished", "")))
        except BaseException as error:  # noqa: BLE001  the training must not notice
            self._fail("the writer stopped", error)
        finally:
            with self._changed:
                self._changed.notify_all()

    def _take(self) -> tuple[list[StepRecord | Structure], bool]:
        """All that waits, which may be nothing; False with it once the run is closed."""
        self._wake.wait(_LOOK_S)
        self._wake.clear()
        is_open = self._closing is None  # read first: what was put before the end is in the queue by now
        items: list[StepRecord | Structure] = []
        while self._waiting:
            try:
                items.append(self._waiting.popleft())
            except IndexError:  # the training took it back to make room
                break
        return items, is_open

    def _handle(self, items: list[StepRecord | Structure]) -> None:
        """Writes what was taken: records up to the next structure in one transaction."""
        with self._changed:
            rescued, self._rescued = self._rescued, []
        for structure in rescued:
            self._set_structure(structure)
        records: list[StepRecord] = []
        for item in items:
            if isinstance(item, Structure):
                self._write(records)
                records = []
                self._set_structure(item)
                self._have_heard(1)
            else:
                records.append(item)
        self._write(records)
        with self._changed:
            self._done += len(items)
            self._stalled = False
            self._changed.notify_all()

    def _set_structure(self, structure: Structure) -> None:
        self._structure = structure
        self._begun = True
        self._attempt(lambda: self._writer.write_structure(structure))
        self._ask(self._last_step, lambda one: one.begin(self._writer.run, structure))

    def _write(self, records: list[StepRecord]) -> None:
        """Shows records to the listeners and writes them with what was found; lost ones are counted."""
        if records and not self._begun:
            self._begun = True
            self._ask(records[0].step, lambda one: one.begin(self._writer.run, self._structure))
        findings: list[Finding] = []
        ready: list[StepRecord] = []
        earlier: list[StepRecord] = []
        self._telling = 0
        known = _round_alike(records)
        for record in records:
            rounded = self._prepare(record, known)
            if rounded is not None:
                found = self._findings_of(self._shown(rounded))
                now, after_all = self._sort(rounded, found)
                ready.append(now)
                earlier += after_all
                findings += found
        self._tell(findings)
        self._have_heard(len(records))
        if not ready:
            return
        if not self._store(ready, findings, earlier):
            with self._changed:
                self._untold += self._telling
                self._lose(len(ready))

    def _have_heard(self, count: int) -> None:
        with self._changed:
            self._heard += count
            self._changed.notify_all()

    def _findings_of(self, record: StepRecord) -> list[Finding]:
        found: list[Finding] = []
        self._ask(record.step, lambda one: found.extend(one.observe(record)))
        return found

    def _shown(self, record: StepRecord) -> StepRecord:
        """The record as listeners see it, rounded as it would be stored."""
        if self._keeper is None or record.beside is None:
            return record
        try:
            shown = self._keeper.show(record)
            blocks, scalars = _rounded(shown, {})
        except Exception as error:  # noqa: BLE001  whatever a keeper does, the training goes on
            self._switch_off(self._keeper, record.step, error)
            self._keeper = None
            return record
        return replace(shown, blocks=blocks, scalars=scalars)

    def _sort(self, record: StepRecord, found: list[Finding]) -> tuple[StepRecord, Sequence[StepRecord]]:
        """What of the record is written now, and what of earlier ones after all."""
        bare = replace(record, beside=None)
        if self._keeper is None:
            return bare, ()
        try:
            return self._keeper.sort(record, found)
        except Exception as error:  # noqa: BLE001  as above
            self._switch_off(self._keeper, record.step, error)
            self._keeper = None
            return bare, ()

    def _store(self, ready: Sequence[StepRecord], findings: list[Finding], earlier: Sequence[StepRecord] = ()) -> bool:
        """True when the store has it; findings that it cannot take now are tried again with the next."""
        owed = [*self._owed, *findings]
        more = (earlier,) if earlier else ()
        done = self._attempt(lambda: self._writer.write(ready, owed, *more))
        if not done and findings:  # the little room that observations must leave to others is enough for them
            with suppress(Exception):
                self._writer.write((), owed)
                owed = []
        self._owed = [] if done else owed[-_OWED:]
        return done

    def _tell(self, findings: list[Finding]) -> None:
        """Remembers findings, and logs each serious one once: who only watches the terminal should know as well."""
        for one in findings:
            if one.severity != "info" and one.key not in self._told:
                place = display_site(one.site)
                _log.warning(
                    "run %s: %s at %s since step %d: %s",
                    self.run.name,
                    one.cause,
                    place,
                    one.first_step,
                    one.explanation,
                )
            self._found.append(one)
            self._told.add(one.key)

    def _prepare(self, record: StepRecord, known: Mapping[int, Block]) -> StepRecord | None:
        """The record rounded as it will be stored, with what happened to the monitor meanwhile; None if it is lost."""
        try:
            check_order(self.run.id, self._last, (record,))
            blocks, scalars = _rounded(record, known)
        except (StoreError, TypeError, ValueError) as error:
            self._fail(f"the record of step {record.step} is lost", error, lasting=False)
            with self._changed:
                self._lose(1)
            return None
        self._last, self._last_step = (int(record.step), int(record.micro_step)), int(record.step)
        if self._fault is None:  # a store that cannot be written would lose this word as well
            self._tell_losses()
        events, self._notices = (*record.events, *self._notices), []
        return replace(record, blocks=blocks, scalars=scalars, events=events)

    def _ask(self, step: int, question: Callable[[Listener], object]) -> None:
        """Puts a question to every listener; one that fails is switched off and reported."""
        for one in tuple(self._listeners):
            try:
                question(one)
            except Exception as error:  # noqa: BLE001  whatever a listener does, the training goes on
                self._switch_off(one, step, error)
                self._listeners.remove(one)

    def _switch_off(self, one: Listener | Keeper, step: int, error: Exception) -> None:
        _log.error("%s failed at step %d and is switched off", type(one).__name__, step, exc_info=error)
        data: dict[str, Json] = {"collector": type(one).__name__, "error": f"{type(error).__name__}: {error}"}
        self._notices.append(Event("monitor_fault", step, data=data))

    def _attempt(self, action: Callable[[], object]) -> bool:
        """True when the store did it; False, with the reason in `fault`, when it could not."""
        try:
            action()
        except Exception as error:  # noqa: BLE001  whatever the store does, the training goes on
            self._fail("the store cannot be written, observations are lost", error)
            return False
        if self._fault is not None:
            _log.warning("run %s: the store can be written again; %d records were lost", self.run.id, self._lost)
            self._fault = None
        return True

    def _keep_house(self) -> None:
        """Housekeeping, piece by piece, until a record waits."""
        while not self._waiting and self._fault is None:
            try:
                if not self._writer.maintain():
                    return
            except Exception as error:  # noqa: BLE001  as above
                self._fail("housekeeping of the store failed", error)

    def _end(self, state: RunState, error: str) -> None:
        last: list[Finding] = []
        self._attempt(self._writer.make_room)
        self._tell_losses()
        self._notices += self._last_events
        if self._notices:  # no record will carry them any more
            last += self._findings_of(StepRecord(self._last_step, time.time(), events=tuple(self._notices)))
        self._ask(self._last_step, lambda one: last.extend(one.end()))
        rest = self._rest(last, failed=state == "failed")
        self._tell(last)
        if last or rest or self._owed:
            self._store((), last, rest)
        if self._notices:
            self._attempt(lambda: self._writer.write_events(self._notices))
        self._attempt(lambda: self._writer.close(state, error))

    def _tell_losses(self) -> None:
        """Nothing; the next record, or the end of the run, tells how many were lost since the last time."""
        with self._changed:
            untold, self._untold = self._untold, 0
        if untold:
            self._telling += untold
            self._notices.append(Event("observations_lost", self._last_step, data={"count": untold}))

    def _rest(self, last: list[Finding], *, failed: bool) -> Sequence[StepRecord]:
        """What the keeper wants stored after all."""
        if self._keeper is None:
            return ()
        try:
            return self._keeper.rest(last, failed=failed)
        except Exception as error:  # noqa: BLE001  as above
            self._switch_off(self._keeper, self._last_step, error)
            return ()

    def _fail(self, what: str, error: BaseException, *, lasting: bool = True) -> None:
        """Remembers and logs a failure; the same one only once."""
        if lasting:
            known, self._fault = self._fault, error
            if type(known) is type(error):
                return
        _log.error("run %s: %s: %s", self.run.id, what, error)


def _round_alike(records: Sequence[StepRecord]) -> dict[int, Block]:
    """Blocks of records as they will be stored, by the identity of the block, those of one layout in one go.

    Of a layout with a block in which something is wrong there is none: `_rounded` finds out which it is.
    """
    alike: dict[int, list[Block]] = {}
    for record in records:
        for block in record.blocks:
            alike.setdefault(id(block.layout), []).append(block)
    known: dict[int, Block] = {}
    for blocks in alike.values():
        with suppress(StoreError, TypeError, ValueError):
            known.update(zip(map(id, blocks), quantize_alike(blocks), strict=True))
    return known


def _rounded(record: StepRecord, known: Mapping[int, Block]) -> tuple[tuple[Block, ...], dict[str, float]]:
    """Blocks and scalars as they will be stored; some blocks are known already."""
    blocks = tuple(known.get(id(block)) or quantize(block) for block in record.blocks)
    return blocks, {name: float(value) for name, value in record.scalars.items()}
