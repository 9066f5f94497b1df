"""Counts of an array's values by their magnitude, an octave a bin and both signs apart, in one pass."""

import math

import numpy as np
from numba import carray, njit
from numpy.typing import NDArray

from .memory import FLOAT32, FLOAT64, Ints, Reals, decode, pointer

__all__ = ["count_octaves", "octaves_between"]


@njit(nogil=True, cache=True)
def _count(x: Reals, top: int, counts: Ints) -> None:
    half = counts.size // 2
    for i in range(x.size):
        value = np.float64(x[i])
        if not abs(value) < np.inf:  # a value that is not finite has no place
            continue
        octave = half - 1
        if value != 0.0:
            octave = min(max(top - math.frexp(abs(value))[1], 0), half - 1)
        counts[octave if value < 0.0 else 2 * half - 1 - octave] += 1


@njit(nogil=True, cache=True)
def count_octaves(address: int, size: int, code: int, top: int, counts: Ints) -> None:
    """Nothing; adds the finite values of one array to the bins that `octaves_between` gives.

    A value on an edge belongs to the bin that is farther from zero; zero belongs to the positive ones.

    Args:
        address, size, code: The array, as `measure` takes it.
        top: The outermost edges are plus and minus two to this power.
        counts: `(bins,)` int64, bins even; added to.
    """
    if code == FLOAT32:
        _count(carray(pointer(address), (size,), np.float32), top, counts)
    elif code == FLOAT64:
        _count(carray(pointer(address), (size,), np.float64), top, counts)
    else:
        values = np.empty(size, np.float32)
        decode(carray(pointer(address), (size,), np.uint16), code, values)
        _count(values, top, counts)


def octaves_between(low: float, high: float, bins: int) -> tuple[NDArray[np.float64], int]:
    """`(bins + 1,)` edges that halve from the outermost power of two to zero on either side, and that power.

    The edges of two arrays are the same but for whole octaves, so that histograms of many steps can be laid together.

    Args:
        low, high: The ends of the finite values.
        bins: Even; half of them for each sign, the innermost of which reaches to zero.
    """
    largest = max(abs(low), abs(high))
    top = math.frexp(largest)[1] if largest > 0.0 else 0
    if largest == math.ldexp(0.5, top):  # a power of two is an edge itself
        top -= 1
    top = max(top, bins // 2 - 1022)  # no edge is smaller than what float64 can tell
    with np.errstate(over="ignore"):  # the outermost edge of the largest values is infinite
        magnitudes = np.ldexp(1.0, top - np.arange(bins // 2))
    return np.concatenate([-magnitudes, [0.0], magnitudes[::-1]]), top
