"""What the ranks of a run recorded, side by side: one metric over the steps, and what each collective cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Matrix, Run, Series
from .reader import Reader

#: Stretches of steps that a map of the ranks shows.
_COLUMNS: Final = 300
#: Points read of each rank; several times the columns, so that a column's ends are those of its steps.
_POINTS: Final = 2000
#: Calls of collectives read of each rank; our choice: a step that makes more is told by its first ones.
CALLS: Final = 48


@dataclass(frozen=True, slots=True)
class Share:
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
    """All that the map can show: what any rank has recorded, scalars first."""
    found = dict.fromkeys(name for rank in run.ranks for name in reader.all_metrics(run.id, rank=rank))
    return tuple(sorted(found, key=lambda name: (not name.startswith("scalar/"), name)))


def rank_sites(reader: Reader, run: Run, metric: str) -> tuple[str, ...]:
    """The sites at which any rank has recorded the metric."""
    if metric.startswith("scalar/"):
        return (ROOT_SITE,)
    return tuple(dict.fromkeys(site for rank in run.ranks for site in reader.sites(run.id, metric, rank=rank)))


def rank_series(reader: Reader, run: Run, metric: str, site: str) -> dict[int, Series]:
    """One metric at one site by rank."""
    return {rank: reader.series(run.id, site, metric, rank=rank, limit=_POINTS) for rank in run.ranks}


def rank_matrix(series: dict[int, Series], metric: str) -> Matrix:
    """The series of the ranks as a matrix with a row for every rank, over common stretches of steps."""
    steps = [one.steps for one in series.values() if one.steps.size]
    if not steps:
        empty = np.zeros((len(series), 0))
        counts = empty.astype(np.int64)
        return Matrix(metric, _names(series), np.zeros(0, np.int64), empty, empty, counts, counts)
    first, last = min(int(one[0]) for one in steps), max(int(one[-1]) for one in steps)
    width = -(-(last - first + 1) // _COLUMNS)
    edges = np.arange(first, last + 1, width, dtype=np.int64)
    rows = [_row(one, edges) for one in series.values()]
    low, high, bad, there = (np.stack([row[at] for row in rows]) for at in range(4))
    return Matrix(metric, _names(series), edges, low, high, bad.astype(np.int64), there.astype(np.int64))


def _names(series: dict[int, Series]) -> tuple[str, ...]:
    return tuple(f"rank {rank}" for rank in series)


def _row(one: Series, edges: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Smallest and largest finite value, non-finite values and all values of each stretch."""
    column = np.searchsorted(edges, one.steps, side="right") - 1
    finite = np.isfinite(one.values)
    low, high = np.full(len(edges), np.inf), np.full(len(edges), -np.inf)
    np.minimum.at(low, column[finite], one.values[finite])
    np.maximum.at(high, column[finite], one.values[finite])
    there = np.bincount(column, minlength=len(edges)).astype(np.float64)
    bad = np.bincount(column[~finite], minlength=len(edges)).astype(np.float64)
    is_empty = np.isinf(low)
    return np.where(is_empty, np.nan, low), np.where(is_empty, np.nan, high), bad, there


def shares(reader: Reader, run: Run) -> tuple[Share, ...]:
    """What every collective cost every rank, by site and rank; none where communication was not watched."""
    found = [share for rank in run.ranks for share in _shares_of(reader, run.id, rank)]
    return tuple(sorted(found, key=lambda share: (share.site, share.rank)))


def _shares_of(reader: Reader, run: str, rank: int) -> list[Share]:
    calls: dict[str, list[int]] = {}
    layouts = [one for one in reader.layouts(run, rank=rank) if one.subject == "communication"]
    pairs = [pair for one in layouts for pair in zip(one.sites, one.calls or (0,) * len(one.sites), strict=True)]
    for site, call in pairs[:CALLS]:
        calls.setdefault(site, []).append(call)
    return [
        Share(rank, site, len(numbers), *(_total(reader, run, rank, site, numbers, name) for name in _COSTS))
        for site, numbers in calls.items()
    ]


_COSTS: Final = ("bytes", "seconds", "wait_seconds")


def _total(reader: Reader, run: str, rank: int, site: str, calls: Sequence[int], name: str) -> float:
    """The median over the steps of each call, summed over the calls."""
    medians = []
    for call in calls:
        values = reader.series(run, site, f"communication/{name}", rank=rank, call=call, limit=_COLUMNS).values
        medians.append(float(np.median(values)) if values.size else np.nan)
    return float(np.sum(medians))


def step_seconds(reader: Reader, run: Run) -> dict[int, float]:
    """The median step of each rank in seconds; ranks that recorded none are left out."""
    found = {}
    for rank, series in rank_series(reader, run, "scalar/step_seconds", ROOT_SITE).items():
        finite = series.values[np.isfinite(series.values)]
        if finite.size:
            found[rank] = float(np.median(finite))
    return found
