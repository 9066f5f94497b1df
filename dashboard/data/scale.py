"""Where numbers of one kind lie, and how they are written."""

import math
from dataclasses import dataclass, replace
from typing import Final

from ..words import number

#: Ends of a scale for shares, so that small ones can be told apart and equal ones lie under each other.
_SHARES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where numbers of one kind lie; ends are NaN where nobody knows them.

    Args:
        unit: What stands behind a value; a share has none, it is written in percent.
        is_signed: A value is written with its sign.
    """

    low: float = math.nan
    high: float = math.nan
    unit: str = ""
    is_share: bool = False
    is_signed: bool = False

    def words(self, value: float) -> str:
        """The value as a person reads it."""
        if math.isnan(value):
            return "–"
        if self.is_share:
            return f"{100 * value:+.4g}%" if self.is_signed else f"{100 * value:.4g}%"
        return f"{number(value)} {self.unit}".strip()

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends as a person reads them, with signs where the scale goes below 0."""
        shown = replace(self, is_signed=self.low < 0, unit="")
        return shown.words(self.low), shown.words(self.high)

    def place(self, value: float) -> float | None:
        """Where the value lies, 0 at the low end and 1 at the high one; None when it cannot be drawn."""
        at = (value - self.low) / (self.high - self.low) if self.high > self.low else math.nan
        return min(max(at, 0.0), 1.0) if math.isfinite(at) else None


def around_zero(end: float) -> Scale:
    """The scale of a share that may be above and below nothing."""
    return Scale(-end, end, is_share=True, is_signed=True)


def round_end(value: float) -> float:
    """The nearest round end of a scale that holds the share."""
    return next((end for end in _SHARES if abs(value) <= end), 1.0 if math.isnan(value) else math.ceil(abs(value)))
