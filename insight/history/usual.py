"""What a scalar usually is, and for how long something has held: the two memories that most rules need."""

from dataclasses import dataclass, field
from math import isfinite, log10, nan
from typing import Final

from .series import Window

#: Deviations from which a value is not learned as usual at once; as far out as `loss-spike` asks for.
_STRANGE: Final = 8.0
#: So many strange values in a row are the new level (our choice: four times what a rule waits for).
_ACCEPTED: Final = 12
#: Smallest spread as a share of the usual value, and in decades on the logarithmic scale; under 5 % nothing is unusual.
_LEAST: Final = 0.02
_TINY: Final = 1e-30


@dataclass(slots=True)
class Streak:
    """For how many records in a row something has held, and since which step."""

    length: int = 0
    since: int = 0

    def update(self, holds: bool, step: int) -> int:
        """The length after this record."""
        if not holds:
            self.length = 0
            return 0
        self.since = step if self.length == 0 else self.since
        self.length += 1
        return self.length


@dataclass(slots=True)
class Usual:
    """The robust history of one scalar: its median and the noise of one value around the trend.

    Strange values are not learned until they have come to stay, so that neither a spike nor a new plateau is taken for
    what it is not. Values that are not finite are never learned.

    Args:
        is_log: Judges in decades, for values that are positive and spread over orders of magnitude.
        warm_up: Values that are learned before any is judged.
    """

    is_log: bool = False
    warm_up: int = 10
    history: Window = field(default_factory=lambda: Window(32))
    strange: int = 0

    @property
    def value(self) -> float:
        """The median of the history, on the scale of the values; NaN while nothing is known."""
        middle = self.history.median()
        return float(10.0**middle) if self.is_log and isfinite(middle) else middle

    @property
    def spread(self) -> float:
        """The noise of one value, never below 2 % of the usual one; in decades on the logarithmic scale."""
        return self._spread(self.history.median())

    def update(self, value: float) -> float:
        """Signed deviations of the value from the history before it, NaN while warming up; learns the value."""
        if not isfinite(value):
            return nan
        scaled = log10(max(value, _TINY)) if self.is_log else value
        history = self.history
        if len(history) < self.warm_up:
            history.add(scaled)
            return nan
        middle = history.median()
        deviations = (scaled - middle) / self._spread(middle)
        self.strange = self.strange + 1 if abs(deviations) > _STRANGE else 0
        if self.strange == 0 or self.strange >= _ACCEPTED:
            history.add(scaled)
        return deviations

    def _spread(self, middle: float) -> float:
        noise = self.history.noise()
        least = _LEAST if self.is_log else max(_LEAST * abs(middle), _TINY)
        return max(noise, least) if isfinite(noise) else least
