"""Tells a rate that rises at long intervals, as a warm-up does that is stepped once an epoch."""

from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Final

#: Rises, steps between two of them, and growth since the beginning. Our choice.
_RISES, _APART, _GROWN = 2, 10, 1.5
#: Relative difference of rates that are the same.
_SAME: Final = 1e-4


@dataclass(slots=True)
class SteppedWarmUp:
    """The rises of a learning rate.

    Attributes:
        first, newest: Rates.
        rises: How often it has risen.
        apart: Steps between two rises, at least.
        has_fallen: Whether it ever did.
    """

    first: float = nan
    newest: float = nan
    rises: int = 0
    apart: float = inf
    has_fallen: bool = False
    _since: int = 0

    def learn(self, step: int, rate: float) -> None:
        """Take the rate of a step."""
        if isnan(self.first):
            self.first, self._since = rate, step
        elif rate > (1 + _SAME) * self.newest:
            self.rises += 1
            self.apart, self._since = min(self.apart, step - self._since), step
        elif rate < (1 - _SAME) * self.newest:
            self.has_fallen = True
        self.newest = rate

    @property
    def is_one(self) -> bool:
        """Whether the rate has only risen, clearly, and each time after many steps."""
        has_grown = self.rises >= _RISES and self.newest >= _GROWN * self.first
        return has_grown and self.apart >= _APART and not self.has_fallen
