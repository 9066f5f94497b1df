"""What a chunk of an array adds to the running total of the array, while the chunk is in the first-level cache.

An array is walked in chunks that stay in the first-level cache, so that its memory is read once. Two loops run over a
chunk, each of which LLVM turns into vector code of one width; a single loop would be as narrow as its widest number:

    sums        sum and sum of squares in float64, as though all were finite: the squares of float32 do not leave
                float64, and neither NaN nor an infinity leaves them finite
    ends        smallest, largest and zeros, in the elements' own type

Two loops more follow only where they are needed:

    careful     something was not finite: count what is what, and sum the finite values alone
    centred     the mean is large against the deviation: sum squares around the mean, so that nothing cancels

Chunks are joined by the update of Chan, Golub and LeVeque (1979), and the norm follows as sqrt(m2 + n mean^2) without
cancellation.

What is compiled of `cpu.py`, `checked.py` and `updates.py` has this file's functions inside, and numba keeps it as long
as those files stay as they are: after a change here, touch them.
"""

import numpy as np
from numba import njit

from .memory import FAST, Floats, Reals, larger, smaller

#: Smallest, largest, zeros.
Ends = tuple[float, float, float]

#: A chunk whose squared deviation is below this share of its squares is summed again around its mean; above it the
#: cancellation costs at most two of float64's sixteen digits. Our choice.
_CANCELLATION = 0.01

# Places in the running total of an array; the mean is kept relative to the first chunk's, so that it loses no digits.
N, MEAN, M2, LOW, HIGH, ZEROS, NANS, POS, NEG, SHIFT = range(10)


@njit(fastmath=FAST, nogil=True, cache=True)
def _sums(x: Reals) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for i in range(x.size):
        value = np.float64(x[i])
        total += value
        squares += value * value
    return total, squares


@njit(fastmath=FAST, nogil=True, cache=True)
def _ends(x: Reals) -> Ends:
    """Of elements all of which are finite."""
    low, high, zeros = x[0], x[0], np.int32(0)
    for i in range(x.size):
        low, high = smaller(x[i], low), larger(x[i], high)
        zeros = np.int32(zeros + np.int32(x[i] == 0))
    return np.float64(low), np.float64(high), np.float64(zeros)


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
def _add_finite(x: Reals, total: Floats, summed: float, squares: float, ends: Ends) -> None:
    low, high, zeros = ends
    mean = summed / x.size
    correction, m2 = 0.0, squares - summed * mean
    if m2 < _CANCELLATION * squares:
        correction, m2 = _centred(x, mean)
    total[ZEROS] += zeros
    _join(total, x.size, mean, correction, max(m2, 0.0), low, high)


@njit(nogil=True, cache=True)
def add_chunk(x: Reals, total: Floats) -> None:
    """Adds a chunk of float32 or float64, of one element or more, to the total."""
    summed, squares = _sums(x)
    if np.isfinite(squares):
        _add_finite(x, total, summed, squares, _ends(x))
    else:  # or the squares of float64 have left its range
        _add_careful(x, total)


@njit(nogil=True, cache=True)
def add_with_ends(x: Reals, total: Floats, ends: Ends) -> None:
    """The same of a chunk whose ends were found already; they are not looked at unless all of it is finite."""
    summed, squares = _sums(x)
    if np.isfinite(squares):
        _add_finite(x, total, summed, squares, ends)
    else:
        _add_careful(x, total)


@njit(nogil=True, cache=True)
def clear(total: Floats) -> None:
    """Nothing; the total is that of no elements."""
    total[:] = 0.0
    total[LOW], total[HIGH] = np.inf, -np.inf
