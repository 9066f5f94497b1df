"""Smooths a series with a moving average whose weights fade into the past."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Weights below this share of the newest one are left out; they change no pixel.
_LEAST: Final = 1e-6


def smoothed(values: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Return the exponential moving average of the values so far, without the bias towards zero at the beginning.

    Each value counts `weight` times as much as the one after it. Values that are not finite are left out of the average
    and stay as they are.

    Args:
        values: `(n,)`.
        weight: 0 for no smoothing, below 1.

    Returns:
        `(n,)`; in the unit of the values.

    Raises:
        ValueError: The weight is not in [0, 1).

    Reference:
        Kingma and Ba 2015, arXiv:1412.6980, section 3: the correction of the bias.
    """
    if not 0 <= weight < 1:
        raise ValueError(f"smoothing must be from 0 to below 1, got {weight}")
    finite = np.isfinite(values)
    if weight == 0 or not finite.any():
        return values
    length = min(len(values), 1 + int(np.log(_LEAST) / np.log(weight)))
    kernel = weight ** np.arange(length)
    sums = np.convolve(np.where(finite, values, 0.0), kernel)[: len(values)]
    counts = np.convolve(finite.astype(np.float64), kernel)[: len(values)]
    averages = np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)
    return np.where(finite, averages, values)
