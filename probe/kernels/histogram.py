"""Counts of an array's values between edges, in one pass."""

import numpy as np
from numba import carray, njit
from numpy.typing import NDArray

from .arrays import readable
from .memory import FLOAT32, FLOAT64, Ints, Reals, decode, pointer


@njit(nogil=True, cache=True)
def _count(x: Reals, low: float, scale: float, counts: Ints) -> None:
    last = counts.size - 1
    for i in range(x.size):
        place = (np.float64(x[i]) - low) * scale
        if place == place and abs(place) < np.inf:  # a value that is not finite has no place
            counts[min(max(int(place), 0), last)] += 1


@njit(nogil=True, cache=True)
def count_values(address: int, size: int, code: int, low: float, high: float, counts: Ints) -> None:
    """Nothing; adds the finite values of one array to equal bins between `low` and `high`.

    Args:
        address, size, code: The array, as `measure` takes it.
        counts: `(bins,)` int64, added to.
    """
    scale = counts.size / (high - low)
    if code == FLOAT32:
        _count(carray(pointer(address), (size,), np.float32), low, scale, counts)
    elif code == FLOAT64:
        _count(carray(pointer(address), (size,), np.float64), low, scale, counts)
    else:
        raw = carray(pointer(address), (size,), np.uint16)
        values = np.empty(size, np.float32)
        decode(raw, code, values)
        _count(values, low, scale, counts)


def histogram_of(
    array: NDArray[np.generic], low: float, high: float, *, bins: int = 64
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`(bins + 1,)` edges from `low` to `high`, and the `(bins,)` counts of the finite values between them.

    A range without width is widened to one around its value, so that a constant array has a histogram too.
    """
    data, code = readable(array)
    edges = edges_between(low, high, bins)
    counts = np.zeros(bins, np.int64)
    count_values(data.ctypes.data, data.size, code, edges[0], edges[-1], counts)
    return edges, counts


def edges_between(low: float, high: float, bins: int) -> NDArray[np.float64]:
    """`(bins + 1,)` equal edges from `low` to `high`, widened where they coincide."""
    if not high - low > abs(low) * 1e-12:
        half = max(abs(low) * 0.5, 0.5)
        low, high = low - half, high + half
    return np.linspace(low, high, bins + 1)
