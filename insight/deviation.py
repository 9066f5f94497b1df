"""Measures how far each layer is from its own history, in robust standard deviations."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..storage import Matrix

#: Columns of history that a column is compared with; our choice: enough for a median, short enough to follow a trend.
_WINDOW: Final = 32
_FIRST: Final = 5
#: Smallest spread, in decades for positive metrics and as a share of the median for signed ones; our choice: under five
#: per cent nothing is called unusual, however still the history was.
_LEAST_SPREAD: Final = 0.02
_MAD_TO_SIGMA: Final = 1.4826


def deviation(matrix: Matrix) -> NDArray[np.float64]:
    """Signed robust deviation of each cell from the columns before it; NaN where there is too little history.

    Positive metrics are compared in decades, signed ones as they are. Of a cell's smallest and largest value
    the one farther from its history counts: the spike is what the reader came for.

    Returns:
        `(sites, columns)`, dimensionless.
    """
    signed = _signed_rows(matrix)
    low, high = _on_scale(matrix.low, signed), _on_scale(matrix.high, signed)
    middle = (low + high) / 2
    out = np.full(low.shape, np.nan)
    for column in range(_FIRST, low.shape[1]):
        history = middle[:, max(0, column - _WINDOW) : column]
        center, spread = _center_and_spread(history, signed)
        below, above = (low[:, column] - center) / spread, (high[:, column] - center) / spread
        out[:, column] = np.where(np.abs(below) > np.abs(above), below, above)
    return out


def _signed_rows(matrix: Matrix) -> NDArray[np.bool_]:
    signed: NDArray[np.bool_] = np.any(np.nan_to_num(matrix.low, nan=0.0) < 0, axis=1, keepdims=True)
    return signed


def _on_scale(values: NDArray[np.float64], signed: NDArray[np.bool_]) -> NDArray[np.float64]:
    tiny = np.finfo(np.float32).tiny
    with np.errstate(invalid="ignore"):
        return np.where(signed, values, np.log10(np.maximum(values, tiny)))


def _center_and_spread(
    history: NDArray[np.float64], signed: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Median and spread of each row, NaN where fewer than `_FIRST` columns are there; NaN columns sort to the end."""
    ordered = np.sort(history, axis=1)
    there = np.isfinite(ordered).sum(axis=1)
    center = _median(ordered, there)
    spread = _median(np.sort(np.abs(history - center[:, None]), axis=1), there) * _MAD_TO_SIGMA
    least = np.where(signed[:, 0], _LEAST_SPREAD * np.abs(center) + np.finfo(np.float32).tiny, _LEAST_SPREAD)
    center = np.where(there >= _FIRST, center, np.nan)
    return center, np.maximum(spread, least)


def _median(ordered: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    rows = np.arange(len(ordered))
    last = ordered.shape[1] - 1
    lower = ordered[rows, np.clip((counts - 1) // 2, 0, last)]
    upper = ordered[rows, np.clip(counts // 2, 0, last)]
    return np.asarray((lower + upper) / 2, dtype=np.float64)
