"""Where a loss began and where it is, for a sentence about it."""

from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Final

import numpy as np

from ..storage import ROOT_SITE, Series, Store

#: The evidence that only a finding of a loss without a floor has: its level when half of the steps had been made.
HALFWAY: Final = "halfway"
#: The evidence of a finding whose loss is raised by a step, by its derivative: that, and the loss.
UPHILL: Final = frozenset({"slope", "value"})
#: Losses whose median is the newest level. Our choice.
_NEWEST = 24


@dataclass(slots=True)
class LossLevels:
    """The first value of one loss, and its newest ones.

    Attributes:
        first: The first finite value; NaN without any.
        newest: The newest finite values.
        count: Records that had the loss.
    """

    first: float = nan
    newest: list[float] = field(default_factory=list)
    count: int = 0

    def learn(self, loss: float) -> None:
        """Take the loss of one record."""
        self.count += 1
        if not isfinite(loss):
            return
        if not self.newest:
            self.first = loss
        self.newest.append(loss)
        if len(self.newest) >= 2 * _NEWEST:
            del self.newest[:-_NEWEST]

    @property
    def level(self) -> float:
        """The median of the newest values; NaN without any."""
        newest = self._judged
        return float(np.median(newest)) if newest else nan

    @property
    def _judged(self) -> list[float]:
        """The newest values; of a short run, those in its second half."""
        return self.newest[-min(_NEWEST, max(self.count // 2, 1)) :]

    def __str__(self) -> str:
        """Say it in words, the newest value and the level where they differ; empty without any value."""
        if not self.newest:
            return ""
        newest, level = f"{self.newest[-1]:.4g}", f"{self.level:.4g}"
        count = len(self._judged)
        usual = f", with a median of {level} in the last {count} records" * (newest != level)
        return f"from {self.first:.4g} to {newest}{usual}"


@dataclass(frozen=True, slots=True)
class LossEnds:
    """The first, last and lowest value of a stored scalar, exactly as they were recorded.

    Args:
        first: As `last`, NaN and infinities included; NaN without any value, which `count` tells apart.
        best: The lowest finite value; NaN without any.
        best_step: The first step that had it; -1 without any.
        count: How many values are stored.
    """

    first: float = nan
    last: float = nan
    best: float = nan
    best_step: int = -1
    count: int = 0


def ends_of(series: Series) -> LossEnds:
    """Return the ends of a series, thinned or not: a thinned one keeps its ends and extremes."""
    if not len(series.values):
        return LossEnds()
    values = np.where(np.isfinite(series.values), series.values, np.inf)
    at = int(values.argmin())
    first, last = float(series.values[0]), float(series.values[-1])
    if values[at] == np.inf:
        return LossEnds(first, last, count=series.total)
    return LossEnds(first, last, float(values[at]), int(series.steps[at]), series.total)


def stored_levels(store: Store, run: str, metric: str, *, rank: int | None = None) -> LossLevels:
    """Return the levels of a stored series of the whole model, `scalar/loss`; unthinned at both ends."""
    drawn = store.series(run, ROOT_SITE, metric, rank=rank, limit=2 * _NEWEST)
    if not drawn.total:
        return LossLevels()
    steps = drawn.steps.tolist()
    ends = []
    for first, last in ((steps[0], steps[0] + 2 * _NEWEST), (max(steps[-1] - 10 * _NEWEST, 0), steps[-1])):
        values = store.series(run, ROOT_SITE, metric, rank=rank, first=first, last=last).values.tolist()
        ends.append([value for value in values if isfinite(value)])
    return LossLevels(next(iter(ends[0]), nan), ends[1][-_NEWEST:], drawn.total)
