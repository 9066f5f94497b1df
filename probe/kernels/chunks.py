"""What a chunk of an array adds to the running total of the array, in one pass over its memory.

An array is walked in chunks that stay in the first-level cache. The fast pass over a chunk assumes that all of it is
finite and sums in float64 lanes: `sum`, `sum of squares`, smallest, largest, zeros, in one loop that LLVM turns into
vector code. Smallest and largest are kept as integers whose order is the order of the floats, so that NaN and the
infinities stand beyond the finite range and the pass itself shows whether its assumption held. Two passes follow only
where they are needed, and find the chunk still in the cache:

    careful     something was not finite: count what is what, and sum the finite values alone
    centred     the mean is large against the deviation: sum squares around the mean, so that nothing cancels

Chunks are joined by the update of Chan, Golub and LeVeque (1979), and the norm follows as sqrt(m2 + n mean^2) without
cancellation.

What is compiled of `cpu.py` and `updates.py` has this file's functions inside, and numba keeps it as long as those
files stay as they are: after a change here, touch them.
"""

from typing import Any

import numpy as np
from numba import njit

from .memory import FAST, Floats, Integers, Reals, single_of

# Sum, sum of squares, smallest, largest, zeros; the last three as wide as the bits.
Sums = tuple[float, float, np.integer[Any], np.integer[Any], np.integer[Any]]

_HIGHEST32, _LOWEST32 = np.int32(0x7F7FFFFF), np.int32(-0x7F800000)
_HIGHEST64, _LOWEST64 = np.int64(0x7FEFFFFFFFFFFFFF), np.int64(-0x7FF0000000000000)
MASK32, _MASK64 = np.int32(0x7FFFFFFF), np.int64(0x7FFFFFFFFFFFFFFF)
TOP32, _TOP64 = np.int32(31), np.int64(63)

#: A chunk whose squared deviation is below this share of its squares is summed again around its mean; above it the
#: cancellation costs at most two of float64's sixteen digits. Our choice.
_CANCELLATION = 0.01

# Places in the running total of an array; the mean is kept relative to the first chunk's, so that it loses no digits.
N, MEAN, M2, LOW, HIGH, ZEROS, NANS, POS, NEG, SHIFT = range(10)


@njit(fastmath=FAST, nogil=True, cache=True)
def _sums32(x: Reals, bits: Integers) -> Sums:
    total, squares, zeros = 0.0, 0.0, np.int32(0)
    low, high = MASK32, np.int32(~MASK32)
    for i in range(x.size):
        value = np.float64(x[i])
        total += value
        squares += value * value
        ordered = np.int32(bits[i] ^ ((bits[i] >> TOP32) & MASK32))
        low = min(low, ordered)
        high = max(high, ordered)
        zeros = np.int32(zeros + np.int32((bits[i] & MASK32) == 0))
    return total, squares, low, high, zeros


@njit(fastmath=FAST, nogil=True, cache=True)
def _sums64(x: Reals, bits: Integers) -> Sums:
    total, squares, zeros = 0.0, 0.0, np.int64(0)
    low, high = _MASK64, np.int64(~_MASK64)
    for i in range(x.size):
        total += x[i]
        squares += x[i] * x[i]
        ordered = np.int64(bits[i] ^ ((bits[i] >> _TOP64) & _MASK64))
        low = min(low, ordered)
        high = max(high, ordered)
        zeros += np.int64((bits[i] & _MASK64) == 0)
    return total, squares, low, high, zeros


@njit(fastmath=FAST, nogil=True, cache=True)
def _centred(x: Reals, mean: float) -> tuple[float, float]:
    rest, squares = 0.0, 0.0
    for i in range(x.size):
        away = np.float64(x[i]) - mean
        rest += away
        squares += away * away
    return rest / x.size, squares - rest * rest / x.size


@njit(nogil=True, cache=True)
def _join(total: Floats, n: float, mean: float, correction: float, m2: float, low: float, high: float) -> None:
    before = total[N]
    if before == 0:
        total[SHIFT] = mean
    together = before + n
    step = (mean - total[SHIFT]) + correction - total[MEAN]
    total[M2] += m2 + step * step * (before * n / together)
    total[MEAN] += step * (n / together)
    total[N] = together
    total[LOW] = min(total[LOW], low)
    total[HIGH] = max(total[HIGH], high)


@njit(nogil=True, cache=True)
def _add_careful(x: Reals, total: Floats) -> None:
    n, zeros, nans, positive, negative = 0, 0, 0, 0, 0
    summed, low, high = 0.0, np.inf, -np.inf
    for i in range(x.size):
        value = np.float64(x[i])
        is_finite = np.isfinite(value)
        n += is_finite
        zeros += value == 0.0
        nans += np.isnan(value)
        positive += value == np.inf
        negative += value == -np.inf
        summed += value if is_finite else 0.0
        low = min(low, value if is_finite else np.inf)
        high = max(high, value if is_finite else -np.inf)
    mean = summed / n if n else 0.0
    rest, squares = 0.0, 0.0
    for i in range(x.size):
        value = np.float64(x[i])
        away = value - mean if np.isfinite(value) else 0.0
        rest += away
        squares += away * away
    total[ZEROS] += zeros
    total[NANS] += nans
    total[POS] += positive
    total[NEG] += negative
    if n:
        _join(total, n, mean, rest / n, squares - rest * rest / n, low, high)


@njit(nogil=True, cache=True)
def _add_finite(x: Reals, total: Floats, summed: float, squares: float, low: float, high: float, zeros: float) -> None:
    mean = summed / x.size
    correction, m2 = 0.0, squares - summed * mean
    if m2 < _CANCELLATION * squares:
        correction, m2 = _centred(x, mean)
    total[ZEROS] += zeros
    _join(total, x.size, mean, correction, max(m2, 0.0), low, high)


@njit(nogil=True, cache=True)
def add_chunk32(x: Reals, total: Floats) -> None:
    """Adds a chunk of float32 to the total."""
    add_sums32(x, total, _sums32(x, x.view(np.int32)))


@njit(nogil=True, cache=True)
def add_sums32(x: Reals, total: Floats, sums: Sums) -> None:
    """The same of a chunk whose sums were taken already."""
    summed, squares, low, high, zeros = sums
    if low < _LOWEST32 or high > _HIGHEST32:
        _add_careful(x, total)
        return
    smallest = single_of(np.int32(low ^ ((low >> TOP32) & MASK32)))
    largest = single_of(np.int32(high ^ ((high >> TOP32) & MASK32)))
    _add_finite(x, total, summed, squares, np.float64(smallest), np.float64(largest), zeros)


@njit(nogil=True, cache=True)
def add_chunk64(x: Reals, total: Floats) -> None:
    """Adds a chunk of float64 to the total."""
    summed, squares, low, high, zeros = _sums64(x, x.view(np.int64))
    if low < _LOWEST64 or high > _HIGHEST64:
        _add_careful(x, total)
        return
    ends = np.empty(2, np.int64)
    ends[0] = low ^ ((low >> _TOP64) & _MASK64)
    ends[1] = high ^ ((high >> _TOP64) & _MASK64)
    values = ends.view(np.float64)
    _add_finite(x, total, summed, squares, values[0], values[1], zeros)


@njit(nogil=True, cache=True)
def clear(total: Floats) -> None:
    """Nothing; the total is that of no elements."""
    total[:] = 0.0
    total[LOW], total[HIGH] = np.inf, -np.inf
