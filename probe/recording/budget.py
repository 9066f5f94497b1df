"""The overhead budget: the monitor measures what tensors cost the training thread, and thins them to stay below.

A step in which everything due was timed gives one figure: the share of monitoring in the rest of the step. The factor
`k` makes every quantity due only at every k-th of its due steps, so that a share s costs s / k on average; k is the
smallest power of two that fits. It is found again whenever enough steps were timed, and told in the run each time it
changes. What a step costs without its tensors, its scalars and what is told of it, is neither counted nor thinned.
"""

from collections import deque
from dataclasses import dataclass
from statistics import median

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
