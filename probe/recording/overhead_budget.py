"""The overhead budget: how many due steps are recorded so that the monitor costs a share of the training at most.

The cost is measured by comparison inside the run: the time of recorded steps against that of idle ones, in which no
hook, clock or fact does anything. So it holds everything that the training's thread does for the monitor: tensors,
scalars, facts, and what torch does to call a hook. The time that the writer's thread has spent on records, live
diagnosis included, is added. On the host, time is the processor time of the training's thread; where a
device measures tensors, it is wall time.

A decision is one of two kinds. Where records of scalars alone fit, these are made at every due step, and tensors at
one of k. Otherwise one of k due steps is recorded, and the others are idle. The factor k is the smallest that fits.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from statistics import median
from typing import Final

from ...storage.records import Json, StepRecord
from ..collectors.collector import COLLECTORS, View
from ..configuration.config import Config
from ..quantities.step_clock import StepTime
from .current_step import CurrentStep
from .due_collectors import Due
from .recorder import Recorder
from .whole_tensors import WholeTensors

_log = logging.getLogger(__name__)

#: Steps of a kind that one decision compares, the largest factor, and the part of the limit above which a factor
#: stays as it is. Our choice: nine steps bear four outliers; 1024 is one step in a thousand.
_STEPS, _MOST, _HYSTERESIS = 9, 1024, 0.75
_COMPARED: Final = 3 * (_STEPS + 1)
#: What is left of the budget for idle steps, which no comparison sees: measured as 1 to 2 % of steps of a millisecond;
#: at most half of it. And for the slow steps that a median does not see: measured as 5 %.
_FOR_IDLE, _FOR_SLOW = 0.015, 0.05
#: The first steps compile, allocate and fill caches; what they cost says nothing about later ones.
_WARM_UP: Final = 3
#: Due steps from one comparison of all kinds to the next, while one kind is not made otherwise. Our choice: it costs
#: less than two records in a hundred.
_AGAIN: Final = 1000
#: Records whose writing is timed before its cost is known; what is assumed until then, as a share of what the record
#: costs the training's thread; share of the budget that scalars alone may take. Our choice.
_WRITTEN, _UNKNOWN, _FOR_SCALARS = 32, 0.5, 0.25
#: Due steps in a row that are recorded whole only while nothing is left out: a comparison, or a factor of two, has
#: fewer.
_WHOLE_AGAIN: Final = 3
_NEVER: Final = 1 << 62
#: The fractional part of the golden ratio: its multiples are spread evenly over the unit interval (Knuth 1998, "The Art
#: of Computer Programming", volume 3, section 6.4, theorem S).
_GOLDEN: Final = 0.6180339887498949


class Kind(Enum):
    """What is recorded of a due step."""

    FULL = "full"
    SCALARS = "scalars"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class ThinningDecision:
    """A decision of the budget.

    Args:
        factor: Every so many due steps are recorded.
        share: Cost of a recorded step as a share of the step without it.
        budget: What the average may be.
        keeps_scalars: Whether scalars are recorded at every due step.
    """

    factor: int
    share: float
    budget: float
    keeps_scalars: bool


class Budget:
    """Decides what is recorded of each due step, from the times of steps.

    Args:
        share: Cost of monitoring that is allowed, as a share of the training's own time: 0.03 for 3 %.
        full_steps: Due steps at the start that are recorded whole, whatever they cost.
        full_s: Seconds after which thinning begins, if these steps take longer.

    Attributes:
        factor: Every so many due steps are recorded.
        keeps_scalars: Whether scalars are recorded at every due step.
    """

    def __init__(
        self,
        share: float,
        *,
        full_steps: int = 0,
        full_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.share = share
        self.factor, self.keeps_scalars = 1, True
        self._compares_from = max(_WARM_UP, full_steps)
        self._full_s, self._clock, self._began = full_s, clock, clock()
        self._times: dict[Kind, deque[float]] = {kind: deque(maxlen=_STEPS) for kind in Kind}
        self._before = (Kind.FULL, 0.0)
        self._fresh = 0
        self._written = self._written_first = (0, 0.0)

    def kind_of(self, due: int) -> Kind:
        """Return what is recorded of the due step of this number, from 0."""
        if due < self._compares_from:
            return self._kind_between(due)
        if due < self._compares_from + _COMPARED:
            return (Kind.FULL, Kind.IDLE, Kind.SCALARS)[(due - self._compares_from) % 3]
        return self._kind_between(due)

    def _kind_between(self, due: int) -> Kind:
        if due == self._recorded_of(due // self.factor):
            return Kind.FULL
        return Kind.SCALARS if self.keeps_scalars else Kind.IDLE

    def _recorded_of(self, block: int) -> int:
        """Return the due step that is recorded of the block of this number, each of `factor` due steps.

        Its place in the block moves, so that a training whose steps take turns is not always met in the same one.
        """
        return block * self.factor + int(block * _GOLDEN % 1.0 * self.factor)

    def _next_of(self, due: int) -> int:
        """Return the first due step from this one on that is the recorded one of its block."""
        block = due // self.factor
        found = self._recorded_of(block)
        return found if found >= due else self._recorded_of(block + 1)

    def next_recorded(self, due: int) -> int:
        """Return the number of the first due step after this one of which anything is recorded."""
        found = due + 1
        while self.kind_of(found) is Kind.IDLE:
            if found < self._compares_from:
                found = min(self._compares_from, self._next_of(found + 1))
            elif found < self._compares_from + _COMPARED:
                found += 1
            else:
                found = self._next_of(found + 1)
        return found

    def note_written(self, records: int, seconds: float) -> None:
        """Note how many records the writer has written so far, and the time its thread has spent."""
        self._written = (records, seconds)
        if not self._written_first[0]:  # which has opened the store and built the rules
            self._written_first = self._written

    def note(self, kind: Kind, seconds: float, due: int) -> ThinningDecision | None:
        """Note the time of a step; return the new decision if this step changed it.

        Args:
            due: Number of the due step that it was, or of the last one before it.
        """
        before, self._before = self._before, (kind, seconds)
        if due < self._compares_from and self._clock() - self._began > self._full_s:
            self._compares_from, self._full_s = max(_WARM_UP, due + 1), math.inf
        if due < _WARM_UP or seconds <= 0.0:
            return None
        if kind is Kind.FULL and before[0] is Kind.IDLE and self._times[Kind.IDLE]:
            seconds += max(0.0, before[1] - median(self._times[Kind.IDLE]))  # hooks were registered again
        self._times[kind].append(seconds)
        self._fresh += kind is Kind.FULL
        if self._fresh < _STEPS or any(len(times) < _STEPS for times in self._times.values()):
            return None
        self._fresh = 0
        decision = self._decide()
        if not self._compares_from <= due < self._compares_from + _COMPARED - 3:  # what is compared is all there
            self._compares_from = due + _AGAIN if self.factor == 1 or self.keeps_scalars else _NEVER
        return decision

    def _decide(self) -> ThinningDecision | None:
        full, scalars, idle = (median(self._times[kind]) for kind in (Kind.FULL, Kind.SCALARS, Kind.IDLE))
        records = self._written[0] - self._written_first[0]
        cost_s = max(0.0, full - idle)
        written_s = (self._written[1] - self._written_first[1]) / records if records >= _WRITTEN else cost_s * _UNKNOWN
        share = (cost_s + written_s) / idle
        for_scalars = (max(0.0, scalars - idle) + written_s) / idle
        keeps_scalars = for_scalars <= self.share * _FOR_SCALARS
        floor = for_scalars if keeps_scalars else 0.0
        allowed = (self.share - min(_FOR_IDLE, self.share / 2)) * (1.0 - _FOR_SLOW)
        factor = self._fitting(share - floor, allowed - floor)
        if (factor, factor == 1 or keeps_scalars) == (self.factor, self.factor == 1 or self.keeps_scalars):
            return None
        self.factor, self.keeps_scalars = factor, keeps_scalars
        return ThinningDecision(factor, share, self.share, keeps_scalars)

    def _fitting(self, share: float, allowed: float) -> int:
        if allowed * _HYSTERESIS <= share / self.factor <= allowed:
            return self.factor
        return min(_MOST, max(1, math.ceil(share / allowed)))


class BudgetedDue(Due):
    """Leaves collectors out of the due steps that the budget does not record, or not with tensors.

    Attributes:
        kind: What is recorded of the step in progress.
        number: Of the due step in progress, or of the last one before it, from 0.
        first_left_out: The first step of which something was left out, to compare its cost or to save it; None since
            every due step is recorded whole.
    """

    def __init__(
        self, budget: Budget, config: Config, current: CurrentStep, whole: WholeTensors, time: StepTime
    ) -> None:
        super().__init__(config, current, whole, time)
        self._budget = budget
        self.kind, self.number = Kind.FULL, -1
        self.first_left_out: int | None = None
        self._whole_in_a_row = 0
        self._decided = -1
        self._ahead = (-1, 1)  # the step that is recorded next, and how many due steps that is from here
        self._scalars: dict[frozenset[str], frozenset[str]] = {}

    def due_at(self, step: int, anomaly: int | None) -> frozenset[str]:
        """Return the collectors that the schedule and the budget want at this step."""
        due = super().due_at(step, anomaly)
        if not due:
            self.kind = Kind.IDLE
            return due
        if step != self._decided:
            self._decided = step
            self.number += self._ahead[1] if step == self._ahead[0] else 1
            self._note_gap(step, self._budget.kind_of(self.number))
        self.kind = self._budget.kind_of(self.number)
        if self.kind is Kind.FULL:
            return due
        if self.kind is Kind.IDLE:
            return frozenset()
        found = self._scalars.get(due)
        if found is None:
            found = self._scalars[due] = frozenset(name for name in due if not _is_of_tensors(name))
        return found

    def _note_gap(self, step: int, kind: Kind) -> None:
        """Note the first step of which something is left out, and forget it once nothing is."""
        if kind is not Kind.FULL:
            self._whole_in_a_row = 0
            self.first_left_out = step if self.first_left_out is None else self.first_left_out
            return
        self._whole_in_a_row += 1
        if self._whole_in_a_row >= _WHOLE_AGAIN:
            self.first_left_out = None

    def next_due(self, step: int) -> int:
        """Return the first step from this one on of which anything may be recorded."""
        due, count = super().next_due(step), self._budget.next_recorded(self.number) - self.number
        if self.agenda.is_always_due(step):
            due += count - 1
        else:
            for _ in range(count - 1):
                due = super().next_due(due + 1) if due < _NEVER else due
        self._ahead = (due, count)
        return due

    def rests(self, names: frozenset[str]) -> bool:
        """Return whether none of these collectors will have anything to do in this step and the few that come."""
        is_idle_for_long = self._current.is_idle and self.agenda.is_long(self._current.step, self.wakes_at)
        return (is_idle_for_long and self._whole.dumper is None) or super().rests(names)

    def fixed_until(self) -> int:
        """Return 0: every due step is decided about."""
        return 0


class BudgetedRecorder(Recorder):
    """Records like `Recorder`, within the budget of its configuration.

    Every decision is an event `schedule_thinned` of the run: factor, share, budget, keeps_scalars, subjects, what is
    recorded less often, and since, the first step of which something was left out, be it to compare costs.
    """

    def __init__(
        self, config: Config, emit: Callable[[StepRecord], None], *, clock: Callable[[], float] = time.time
    ) -> None:
        if config.budget is None:
            raise ValueError("a recorder with a budget needs one in its configuration")
        full = config.full_detail
        self._budget = Budget(config.budget, full_steps=full.steps, full_s=full.seconds)
        super().__init__(config, emit, clock=clock, due=partial(BudgetedDue, self._budget))
        self._step_clock: Callable[[], float] = time.thread_time
        self._step_began = self._step_clock()

    def after_step(self, view: View, *, skipped: bool = False) -> None:
        """Close the step, and note what it took."""
        due = self.due
        assert isinstance(due, BudgetedDue)
        kind, number = due.kind, due.number
        super().after_step(view, skipped=skipped)
        now = self._step_clock()
        seconds, self._step_began = now - self._step_began, now
        if kind is Kind.FULL:
            self._budget.note_written(*self.written())
            if self._step_clock is time.thread_time and view.weights().remote:
                self._step_clock, self._step_began = time.perf_counter, time.perf_counter()
        decision = self._budget.note(kind, seconds, number)
        if decision is not None:
            self._report(decision)

    def _report(self, decision: ThinningDecision) -> None:
        share = 100.0 * decision.share
        _log.debug("one in %d due steps is recorded: one costs %.1f %% of a step", decision.factor, share)
        thinned: list[Json] = [
            name
            for name in COLLECTORS
            if self.config.schedule(name).is_ever_due
            and name not in self.due.agenda.off
            and (_is_of_tensors(name) or not decision.keeps_scalars)
        ]
        assert isinstance(self.due, BudgetedDue)
        self.event("schedule_thinned", **asdict(decision), subjects=thinned, since=self.due.first_left_out)


def _is_of_tensors(name: str) -> bool:
    """Return whether the quantity is of tensors, which cost; of the others nothing is read but a number."""
    return bool(COLLECTORS[name].columns) or name == "histogram"
