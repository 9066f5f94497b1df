"""What the ranks of a run recorded, side by side: one metric over the steps, and what each collective cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Matrix, Run, Series
from .reader import Reader

#: Intervals of steps that a map of the ranks shows.
_COLUMNS: Final = 300
#: Points read of each rank; several times the columns, so that a column's ends are those of its steps.
_POINTS: Final = 2000
#: Calls of collectives read of each rank; our choice: a step that makes more is represented by its first ones.
CALLS: Final = 48


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """What one collective cost one rank in a typical step, all its calls together.

    Args:
        site: `operation/group`.
        moved_bytes: Median over the steps, as the seconds; NaN where it was not recorded.
    """

    rank: int
    site: str
    calls: int
    moved_bytes: float
    seconds: float
    wait_seconds: float


def rank_metrics(reader: Reader, run: Run) -> tuple[str, ...]:
    """Return all that the map can show: what any rank has recorded, scalars first."""
    found = dict.fromkeys(name for rank in run.ranks for name in reader.all_metrics(run.id, rank=rank))
    return tuple(sorted(found, key=lambda name: (not name.startswith("scalar/"), name)))


def rank_sites(reader: Reader, run: Run, metric: str) -> tuple[str, ...]:
    """Return the sites at which any rank has recorded the metric."""
    if metric.startswith("scalar/"):
        return (ROOT_SITE,)
    return tuple(dict.fromkeys(site for rank in run.ranks for site in reader.sites(run.id, metric, rank=rank)))


def rank_series(reader: Reader, run: Run, metric: str, site: str) -> dict[int, Series]:
    """Return one metric at one site by rank."""
    return {rank: reader.series(run.id, site, metric, rank=rank, limit=_POINTS) for rank in run.ranks}


def rank_matrix(series: dict[int, Series], metric: str) -> Matrix:
    """Return the series of the ranks as a matrix with a row for every rank, over common intervals of steps."""
    steps = [values_of_rank.steps for values_of_rank in series.values() if values_of_rank.steps.size]
    if not steps:
        empty = np.zeros((len(series), 0))
        counts = empty.astype(np.int64)
        return Matrix(
            metric, _names(series), np.zeros(0, np.int64), low=empty, high=empty, non_finite=counts, present=counts
        )
    first, last = min(int(rank_steps[0]) for rank_steps in steps), max(int(rank_steps[-1]) for rank_steps in steps)
    width = -(-(last - first + 1) // _COLUMNS)
    edges = np.arange(first, last + 1, width, dtype=np.int64)
    rows = [_row(values_of_rank, edges) for values_of_rank in series.values()]
    low, high, bad, there = (np.stack([row[at] for row in rows]) for at in range(4))
    non_finite, present = bad.astype(np.int64), there.astype(np.int64)
    return Matrix(metric, _names(series), edges, low=low, high=high, non_finite=non_finite, present=present)


def _names(series: dict[int, Series]) -> tuple[str, ...]:
    return tuple(f"rank {rank}" for rank in series)


def _row(series: Series, edges: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Return per interval the smallest and largest finite value, and the counts of non-finite and of all values."""
    column = np.searchsorted(edges, series.steps, side="right") - 1
    finite = np.isfinite(series.values)
    low, high = np.full(len(edges), np.inf), np.full(len(edges), -np.inf)
    np.minimum.at(low, column[finite], series.values[finite])
    np.maximum.at(high, column[finite], series.values[finite])
    there = np.bincount(column, minlength=len(edges)).astype(np.float64)
    bad = np.bincount(column[~finite], minlength=len(edges)).astype(np.float64)
    is_empty = np.isinf(low)
    return np.where(is_empty, np.nan, low), np.where(is_empty, np.nan, high), bad, there


def collective_costs(reader: Reader, run: Run) -> tuple[CollectiveCost, ...]:
    """Return what every collective cost every rank, by site and rank; empty without recorded communication."""
    found = [share for rank in run.ranks for share in _costs_of_rank(reader, run.id, rank)]
    return tuple(sorted(found, key=lambda share: (share.site, share.rank)))


def _costs_of_rank(reader: Reader, run: str, rank: int) -> list[CollectiveCost]:
    calls: dict[str, list[int]] = {}
    layouts = [layout for layout in reader.layouts(run, rank=rank) if layout.subject == "communication"]
    pairs = [
        pair for layout in layouts for pair in zip(layout.sites, layout.calls or (0,) * len(layout.sites), strict=True)
    ]
    for site, call in pairs[:CALLS]:
        calls.setdefault(site, []).append(call)
    return [
        CollectiveCost(rank, site, len(numbers), *(_total(reader, run, rank, site, numbers, name) for name in _COSTS))
        for site, numbers in calls.items()
    ]


_COSTS: Final = ("bytes", "seconds", "wait_seconds")


def _total(reader: Reader, run: str, rank: int, site: str, calls: Sequence[int], name: str) -> float:
    """Return the median over the steps of each call, summed over the calls."""
    medians = []
    for call in calls:
        values = reader.series(run, site, f"communication/{name}", rank=rank, call=call, limit=_COLUMNS).values
        medians.append(float(np.median(values)) if values.size else np.nan)
    return float(np.sum(medians))


def step_seconds(reader: Reader, run: Run) -> dict[int, float]:
    """Return the median step of each rank in seconds; ranks that recorded none are left out."""
    found = {}
    for rank, series in rank_series(reader, run, "scalar/step_seconds", ROOT_SITE).items():
        finite = series.values[np.isfinite(series.values)]
        if finite.size:
            found[rank] = float(np.median(finite))
    return found
