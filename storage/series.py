"""What a reader gets back: bounded pictures of a run, with the extremes and the non-finite values kept."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One value a step of one metric at one site.

    Args:
        steps: `(n,)` int64, ascending; a step appears again when it had several micro-steps.
        values: `(n,)` float64; NaN and infinities are values, a missing step is simply not there.
        times: `(n,)` float64 Unix seconds.
        total: How many points the asked range holds; more than `n` when the answer was down-sampled.
    """

    site: str
    metric: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]
    total: int
    rank: int = 0
    call: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """One metric over all sites and steps, in at most `limit` columns.

    Args:
        sites: Rows, in call order (activations) or model order (parameters).
        steps: `(columns,)` int64, the first step of each column.
        low: `(sites, columns)` float64, the smallest finite value in the column; NaN when there is none.
        high: `(sites, columns)` float64, the largest finite value.
        non_finite: `(sites, columns)` int64, how many values of the column were NaN or infinite.
        present: `(sites, columns)` int64, how many values the column holds; 0 means missing.
    """

    metric: str
    sites: tuple[str, ...]
    steps: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    non_finite: NDArray[np.int64]
    present: NDArray[np.int64]
    rank: int = 0
