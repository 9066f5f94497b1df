"""One metric of every site at one step, and its value over the parameters inside of a module."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...storage import Matrix, Store, split_metric

__all__ = ["Values", "values_at"]

#: Steps that are looked at first for one that has the metric; our choice: most are recorded every ten steps or more.
_WIDTH = 32
_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs", "size"})


@dataclass(frozen=True, slots=True)
class Values:
    """What one metric was at a step, by site; NaN where it was not finite."""

    metric: str
    step: int
    by_site: Mapping[str, float]

    def of(self, module: str, parameters: Sequence[str]) -> float | None:
        """The module's own value, or that over its parameters; None where neither was recorded.

        Norms of parameters add up in squares, counts as they are; of anything else the largest is shown, since what
        stands out is what is looked for. NaN of one is NaN of all.
        """
        if module in self.by_site:
            return self.by_site[module]
        found = [self.by_site[site] for site in parameters if site in self.by_site]
        if not found:
            return None
        statistic = split_metric(self.metric)[1]
        if any(math.isnan(value) for value in found):
            return float("nan")
        if statistic == "l2_norm":
            return math.hypot(*found)
        if statistic in _COUNTS:
            return sum(found)
        return min(found) if statistic == "min" else max(found)


def values_at(store: Store, run: str, metric: str, *, rank: int = 0, step: int | None = None) -> Values:
    """The metric at the newest step at or before `step` that has it."""
    newest = _newest(store, run, metric, rank, step)
    if newest is None:
        return Values(metric, -1, {})
    at = int(newest.steps[-1])
    columns = zip(
        newest.sites,
        newest.high[:, -1].tolist(),
        newest.non_finite[:, -1].tolist(),
        newest.present[:, -1].tolist(),
        strict=True,
    )
    return Values(metric, at, {site: float("nan") if bad else high for site, high, bad, there in columns if there})


def _newest(store: Store, run: str, metric: str, rank: int, step: int | None) -> Matrix | None:
    """The metric in the last steps that have it, each a column: looked for ever further back."""
    end = next((record.step for record in store.replay(run, rank=rank, last=step, limit=1)), -1)
    first, width = end + 1, _WIDTH
    while first > 0:
        last, first = first - 1, max(0, first - width)
        found = store.matrix(run, metric, rank=rank, first=first, last=last, limit=last - first + 1)
        if found.steps.size:
            return found
        width *= 8
    return None
