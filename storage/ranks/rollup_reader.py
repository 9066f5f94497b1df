"""Reads the roll-up of a run: one quantity over the steps, with its spread over the ranks."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import RunNotFound
from ..history.queries import select_points
from ..metric_series import Series
from ..run_info import ALL_RANKS
from ..store import Store
from .rollup_names import QUANTILES, rolled

Floats = NDArray[np.float64]
#: The newest steps that one answer reads in full. Our choice: 14 numbers each are 7 MB.
MOST_STEPS: Final = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class RankSpread:
    """One quantity at one site over the steps, each array `(n,)` float64 but where it says so.

    Args:
        steps: `(n,)` int64, ascending.
        times: Unix seconds.
        low: The smallest finite value over the ranks, NaN without one; `high` is the largest.
        low_rank: Which rank has the smallest, NaN without one; `high_rank` which has the largest.
        strange_rank: A rank whose value is not finite, NaN without one.
        deviation: The median absolute deviation.
        count: How many ranks have a finite value; `non_finite`, how many another.
        quantiles: `(n, 7)`, for 1, 10, 25, 50, 75, 90 and 99 % of the ranks.
        total: How many steps the asked range holds.
    """

    site: str
    metric: str
    steps: NDArray[np.int64]
    times: Floats
    low: Floats
    high: Floats
    mean: Floats
    deviation: Floats
    low_rank: Floats
    high_rank: Floats
    strange_rank: Floats
    count: Floats
    non_finite: Floats
    quantiles: Floats
    total: int

    @property
    def median(self) -> Floats:
        """The median over the ranks."""
        return self.quantiles[:, QUANTILES.index("q50")]


def has_rollup(store: Store, run: str) -> bool:
    """Return whether a run has a roll-up."""
    return bool(rollup_metrics(store, run))


def rollup_metrics(store: Store, run: str) -> tuple[str, ...]:
    """Return the metrics of the ranks that the roll-up has, sorted; none without one."""
    try:
        names = store.metrics(run, rank=ALL_RANKS)
    except RunNotFound:
        return ()
    ending = rolled("", "max")
    return tuple(name.removesuffix(ending) for name in names if name.endswith(ending) and not name.startswith("ranks/"))


def read_rollup(
    store: Store,
    run: str,
    site: str,
    metric: str,
    *,
    first: int | None = None,
    last: int | None = None,
    limit: int = 2000,
    parts: Collection[str] | None = None,
) -> RankSpread:
    """Return the spread of one metric at one site between two steps, both included.

    Of more steps than `limit` those with the extremes over ranks and steps are kept, as by `Store.series`; of more than
    65,536 only the newest are read.

    Args:
        parts: Names of `rollup_names.py` that are read beside the largest value; the others are NaN. None for all.

    Raises:
        RunNotFound: The run has no roll-up.
    """

    def column(part: str, begin: int | None, end: int | None) -> Series:
        return store.series(run, site, rolled(metric, part), rank=ALL_RANKS, first=begin, last=end, limit=2**31 - 1)

    begin = first
    steps = store.series(run, site, rolled(metric, "count"), rank=ALL_RANKS, first=first, last=last, limit=4)
    if steps.total > MOST_STEPS:
        begin = max(int(steps.steps[-1]) - MOST_STEPS + 1, first or 0)
    whole = column("max", begin, last)
    at, high = whole.steps, whole.values
    end = int(at[-1]) if len(at) else last  # what is written meanwhile is left out, so that all columns are alike

    def values_of(part: str) -> Floats:
        if parts is not None and part not in parts:
            return np.full(len(at), np.nan)
        values = column(part, begin, end).values[: len(at)]
        return values if len(values) == len(at) else np.full(len(at), np.nan)

    low = values_of("min")
    kept = np.arange(len(at))
    if len(at) > limit:
        kept = np.union1d(select_points(high, limit // 2), select_points(low, limit // 2))

    def rest(part: str) -> Floats:
        return values_of(part)[kept]

    quantiles = np.stack([rest(name) for name in QUANTILES], axis=1)
    return RankSpread(
        site,
        metric,
        at[kept],
        whole.times[kept],
        low[kept],
        high[kept],
        rest("mean"),
        rest("mad"),
        rest("min_rank"),
        rest("max_rank"),
        rest("non_finite_rank"),
        rest("count"),
        rest("non_finite"),
        quantiles,
        max(whole.total, steps.total),
    )
