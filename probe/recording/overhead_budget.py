"""The overhead budget: the monitor measures what tensors cost the training thread, and thins them to stay below.

A step in which everything due was timed gives one figure: the share of monitoring in the rest of the step. The factor
`k` makes every quantity due only at every k-th of its due steps, so that a share s costs s / k on average; k is the
smallest power of two that fits. It is found again whenever enough steps were timed, and told in the run each time it
changes. What a step costs without its tensors, its scalars and what is told of it, is neither counted nor thinned.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import ParamSpec

from ...storage.records import Json, StepRecord
from ..collectors.collector import COLLECTORS, View
from ..configuration.config import Config
from ..quantities.step_clock import StepTime
from .current_step import CurrentStep
from .due_collectors import Due
from .recorder import Recorder
from .whole_tensors import WholeTensors

#: Timed steps that one decision looks at, the most that is thinned, and how far below the budget thinning is taken
#: back. Our choice: nine steps bear four outliers; 1024 is one step in a thousand.
_STEPS, _MOST, _HYSTERESIS = 9, 1024, 0.75
#: The first steps compile, allocate and fill caches; what they cost says nothing about later ones.
_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Thinning:
    """A decision.

    Args:
        factor: Every so many due steps are recorded.
        share: Cost of a recorded step as a share of the step without it.
        budget: What the average may be.
    """

    factor: int
    share: float
    budget: float


class Budget:
    """Decides how much is thinned.

    Args:
        share: Cost of monitoring that is allowed, as a share of the training's own time: 0.03 for 3 %.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.factor = 1
        self._shares: deque[float] = deque(maxlen=_STEPS)
        self._seen = 0

    def skips(self, due: int) -> bool:
        """Whether the due step of this number (from 0) is left out."""
        return due % self.factor != 0

    def note(self, monitor_s: float, step_s: float) -> Thinning | None:
        """What a recorded step cost; the new decision, if this step changed it.

        Args:
            monitor_s: Seconds of the training thread spent on monitoring in the step.
            step_s: Seconds of the whole step, monitoring included.
        """
        self._seen += 1
        own = step_s - monitor_s
        if self._seen <= _WARM_UP or own <= 0.0:
            return None
        self._shares.append(monitor_s / own)
        if len(self._shares) < _STEPS:
            return None
        share = median(self._shares)
        factor = self._fitting(share)
        if factor == self.factor:
            return None
        self.factor = factor
        self._shares.clear()
        return Thinning(factor, share, self.share)

    def _fitting(self, share: float) -> int:
        factor = self.factor
        while factor < _MOST and share / factor > self.share:
            factor *= 2
        while factor > 1 and share / (factor // 2) <= self.share * _HYSTERESIS:
            factor //= 2
        return factor


_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")


class ThriftyDue(Due):
    """Leaves quantities of tensors out of the due steps that the budget skips."""

    def __init__(
        self, budget: Budget, config: Config, current: CurrentStep, whole: WholeTensors, time: StepTime
    ) -> None:
        super().__init__(config, current, whole, time)
        self._budget = budget
        self._due_steps, self._decided = -1, -1

    def fixed_until(self) -> int:
        return 0

    def decide(self) -> None:
        """Nothing; the current step tells what is due in it, and so do those who follow."""
        super().decide()
        current = self._current
        if not _sees_tensors(current):
            return
        if self._decided != current.step:
            self._decided, self._due_steps = current.step, self._due_steps + 1
        if self._budget.skips(self._due_steps):
            self._expect(frozenset(name for name in current.due if not _is_thinned(name)))
            self._subscribers.notify()


class ThriftyRecorder(Recorder):
    """Records like `Recorder`, tensors within the budget of its configuration; scalars are recorded at every due step.

    What they cost at the steps that are skipped is not counted.

    Every decision is an event `schedule_thinned` (factor, share, budget, subjects: what is recorded less often) of the
    run.
    """

    def __init__(
        self, config: Config, emit: Callable[[StepRecord], None], *, clock: Callable[[], float] = time.time
    ) -> None:
        if config.budget is None:
            raise ValueError("a recorder with a budget needs one in its configuration")
        self._budget = Budget(config.budget)
        self._spent = 0.0
        self._is_timing = False
        self._step_began = time.perf_counter()
        super().__init__(config, emit, clock=clock, due=partial(ThriftyDue, self._budget))

    def timed(self, work: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        """The work, its time on account of the monitor; what it calls is not counted twice."""

        def run(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> None:
            if self._is_timing:
                work(*arguments, **options)
                return
            self._is_timing = True
            begin = time.perf_counter()
            try:
                work(*arguments, **options)
            finally:
                self._spent += time.perf_counter() - begin
                self._is_timing = False

        return run

    def before_step(self, view: View) -> None:
        """The optimizer is about to move the weights."""
        self.timed(super().before_step)(view)

    def after_step(self, view: View, *, skipped: bool = False) -> None:
        """The step is over; what it cost is looked at."""
        was_due = _sees_tensors(self.current)
        self.timed(super().after_step)(view, skipped=skipped)
        now = time.perf_counter()
        thinning = self._budget.note(self._spent, now - self._step_began) if was_due else None
        self._spent, self._step_began = 0.0, now
        if thinning is not None:
            _log.info("every %d. due step is recorded: one costs %.1f %%", thinning.factor, 100.0 * thinning.share)
            thinned: list[Json] = [name for name in COLLECTORS if _is_thinned(name) and self._is_wanted(name)]
            self.event("schedule_thinned", **asdict(thinning), subjects=thinned)

    def _is_wanted(self, name: str) -> bool:
        return self.config.schedule(name).is_ever_due and name not in self.due.agenda.off


def _sees_tensors(current: CurrentStep) -> bool:
    return any(_is_thinned(name) for name in current.due)


def _is_thinned(name: str) -> bool:
    """Whether the quantity is of tensors, which cost; scalars are recorded at every due step."""
    return bool(COLLECTORS[name].columns) or name == "histogram"
