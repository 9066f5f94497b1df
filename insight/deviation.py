"""Measures how far each layer is from its own history, in robust standard deviations."""

from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..storage import Matrix

#: Columns of history that a column is compared with; our choice: enough for a median, short enough to follow a trend.
_WINDOW: Final = 32
_FIRST: Final = 5
#: Cells that are compared at a time: their histories of a megabyte stay in the cache of the processor.
_CELLS: Final = 1 << 12
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
    before = np.full((len(low), _WINDOW), np.nan)
    histories = sliding_window_view(np.concatenate((before, (low + high) / 2), axis=1), _WINDOW, axis=1)
    out = np.full(low.shape, np.nan)
    together = max(1, _CELLS // max(1, len(low)))
    for begin in range(0, low.shape[1], together):
        some = np.s_[:, begin : min(begin + together, low.shape[1])]
        center, spread = _center_and_spread(histories[some], signed)
        below, above = (low[some] - center) / spread, (high[some] - center) / spread
        out[some] = np.where(np.abs(below) > np.abs(above), below, above)
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
    """Median and spread of each cell's history, NaN where fewer than `_FIRST` columns are there; NaN sorts to the end.

    Args:
        history: `(sites, columns, _WINDOW)`, NaN before the first column.
        signed: `(sites, 1)`.

    Returns:
        `(sites, columns)` each.
    """
    ordered = np.sort(history, axis=-1)
    there = np.isfinite(ordered).sum(axis=-1)
    center = np.where(there >= _FIRST, _median(ordered, there), np.nan)
    spread = _median(np.sort(np.abs(history - center[..., None]), axis=-1), there) * _MAD_TO_SIGMA
    least = np.where(signed, _LEAST_SPREAD * np.abs(center) + np.finfo(np.float32).tiny, _LEAST_SPREAD)
    return center, np.maximum(spread, least)


def _median(ordered: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    last = ordered.shape[-1] - 1
    places = (np.clip((counts - 1) // 2, 0, last), np.clip(counts // 2, 0, last))
    lower, upper = (np.take_along_axis(ordered, place[..., None], axis=-1)[..., 0] for place in places)
    return np.asarray((lower + upper) / 2, dtype=np.float64)
