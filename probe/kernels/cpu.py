"""Ten statistics of an array in one pass over its memory, for one array or for all arrays of a step in one call.

An array is walked in chunks that stay in the first-level cache. The fast pass over a chunk assumes that all of it is
finite and sums in float64 lanes: `sum`, `sum of squares`, smallest, largest, zeros, in one loop that LLVM turns into
vector code. Smallest and largest are kept as integers whose order is the order of the floats, so that NaN and the
infinities stand beyond the finite range and the pass itself shows whether its assumption held. Two passes follow only
where they are needed, and find the chunk still in the cache:

    careful     something was not finite: count what is what, and sum the finite values alone
    centred     the mean is large against the deviation: sum squares around the mean, so that nothing cancels

Chunks are joined by the update of Chan, Golub and LeVeque (1979), and the norm follows as sqrt(m2 + n mean^2) without
cancellation. Arrays are given by address, size and dtype code: the caller keeps them alive and contiguous.
"""

from typing import Any, Final

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

# What the kernels take; numba looks at the values, not at these.
_Reals = NDArray[np.float32] | NDArray[np.float64]
_Singles = NDArray[np.float32]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int32] | NDArray[np.int64]
_Halves = NDArray[np.uint16]
_Ints = NDArray[np.int64]
# Sum, sum of squares, smallest, largest, zeros; the last three as wide as the bits.
_Sums = tuple[float, float, np.integer[Any], np.integer[Any], np.integer[Any]]

#: The columns of a row, in order; minimum, maximum, mean, std and norm are those of the finite elements.
STATISTICS: Final = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")

#: Codes of the element types that the kernels read where they lie.
FLOAT32: Final = 0
FLOAT64: Final = 1
FLOAT16: Final = 2
BFLOAT16: Final = 3

_CHUNK = 4096
_FAST: Final = {"reassoc", "contract", "nsz"}
_HIGHEST32, _LOWEST32 = np.int32(0x7F7FFFFF), np.int32(-0x7F800000)
_HIGHEST64, _LOWEST64 = np.int64(0x7FEFFFFFFFFFFFFF), np.int64(-0x7FF0000000000000)
_MASK32, _MASK64 = np.int32(0x7FFFFFFF), np.int64(0x7FFFFFFFFFFFFFFF)
_TOP32, _TOP64 = np.int32(31), np.int64(63)

#: A chunk whose squared deviation is below this share of its squares is summed again around its mean; above it the
#: cancellation costs at most two of float64's sixteen digits. Our choice.
_CANCELLATION = 0.01

#: Squares of float64 beyond this leave its range (or its precision, below the inverse): such arrays are scaled first.
_SQUARABLE = 1e150

# Places in the running total of an array; the mean is kept relative to the first chunk's, so that it loses no digits.
_N, _MEAN, _M2, _LOW, _HIGH, _ZEROS, _NANS, _POS, _NEG, _SHIFT = range(10)


@intrinsic
def _pointer(_context: Any, address: Any) -> Any:  # Any: numba's own compiler interface is untyped
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@njit(fastmath=_FAST, nogil=True, cache=True)
def _sums32(x: _Reals, bits: _Integers) -> _Sums:
    total, squares, zeros = 0.0, 0.0, np.int32(0)
    low, high = _MASK32, np.int32(~_MASK32)
    for i in range(x.size):
        value = np.float64(x[i])
        total += value
        squares += value * value
        ordered = np.int32(bits[i] ^ ((bits[i] >> _TOP32) & _MASK32))
        low = min(low, ordered)
        high = max(high, ordered)
        zeros = np.int32(zeros + np.int32((bits[i] & _MASK32) == 0))
    return total, squares, low, high, zeros


@njit(fastmath=_FAST, nogil=True, cache=True)
def _sums64(x: _Reals, bits: _Integers) -> _Sums:
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


@njit(fastmath=_FAST, nogil=True, cache=True)
def _centred(x: _Reals, mean: float) -> tuple[float, float]:
    rest, squares = 0.0, 0.0
    for i in range(x.size):
        away = np.float64(x[i]) - mean
        rest += away
        squares += away * away
    return rest / x.size, squares - rest * rest / x.size


@njit(nogil=True, cache=True)
def _join(total: _Floats, n: float, mean: float, correction: float, m2: float, low: float, high: float) -> None:
    before = total[_N]
    if before == 0:
        total[_SHIFT] = mean
    together = before + n
    step = (mean - total[_SHIFT]) + correction - total[_MEAN]
    total[_M2] += m2 + step * step * (before * n / together)
    total[_MEAN] += step * (n / together)
    total[_N] = together
    total[_LOW] = min(total[_LOW], low)
    total[_HIGH] = max(total[_HIGH], high)


@njit(nogil=True, cache=True)
def _add_careful(x: _Reals, total: _Floats) -> None:
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
    total[_ZEROS] += zeros
    total[_NANS] += nans
    total[_POS] += positive
    total[_NEG] += negative
    if n:
        _join(total, n, mean, rest / n, squares - rest * rest / n, low, high)


@njit(nogil=True, cache=True)
def _add_finite(
    x: _Reals, total: _Floats, summed: float, squares: float, low: float, high: float, zeros: float
) -> None:
    mean = summed / x.size
    correction, m2 = 0.0, squares - summed * mean
    if m2 < _CANCELLATION * squares:
        correction, m2 = _centred(x, mean)
    total[_ZEROS] += zeros
    _join(total, x.size, mean, correction, max(m2, 0.0), low, high)


@njit(nogil=True, cache=True)
def _add_chunk32(x: _Reals, total: _Floats) -> None:
    summed, squares, low, high, zeros = _sums32(x, x.view(np.int32))
    if low < _LOWEST32 or high > _HIGHEST32:
        _add_careful(x, total)
        return
    ends = np.empty(2, np.int32)
    ends[0] = low ^ ((low >> _TOP32) & _MASK32)
    ends[1] = high ^ ((high >> _TOP32) & _MASK32)
    values = ends.view(np.float32)
    _add_finite(x, total, summed, squares, np.float64(values[0]), np.float64(values[1]), zeros)


@njit(nogil=True, cache=True)
def _add_chunk64(x: _Reals, total: _Floats) -> None:
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
def _decode(raw: _Halves, code: int, out: _Singles) -> None:
    """float32 values of 16-bit floats: bfloat16 is their upper half, float16 is scaled by 2^112 into their range."""
    bits = out.view(np.uint32)
    if code == BFLOAT16:
        for i in range(raw.size):
            bits[i] = np.uint32(raw[i]) << np.uint32(16)
        return
    for i in range(raw.size):
        bits[i] = np.uint32(raw[i] & np.uint16(0x7FFF)) << np.uint32(13)
    for i in range(raw.size):
        out[i] *= np.float32(2.0**112)
    for i in range(raw.size):
        half = np.uint32(raw[i])
        special = np.uint32(0x7F800000) if (half & np.uint32(0x7C00)) == np.uint32(0x7C00) else np.uint32(0)
        bits[i] |= special | ((half & np.uint32(0x8000)) << np.uint32(16))


@njit(nogil=True, cache=True)
def _clear(total: _Floats) -> None:
    total[:] = 0.0
    total[_LOW], total[_HIGH] = np.inf, -np.inf


@njit(nogil=True, cache=True)
def _finish(total: _Floats, size: int, scale: float, out: _Floats) -> None:
    n = total[_N]
    mean = total[_SHIFT] + total[_MEAN] if n else np.nan
    out[0] = np.sqrt(total[_M2] + n * mean * mean) / scale
    out[1] = mean / scale
    out[2] = np.sqrt(total[_M2] / n) / scale if n else np.nan
    out[3] = total[_LOW] / scale if n else np.nan
    out[4] = total[_HIGH] / scale if n else np.nan
    out[5] = total[_ZEROS]
    out[6] = total[_NANS]
    out[7] = total[_POS]
    out[8] = total[_NEG]
    out[9] = size


@njit(nogil=True, cache=True)
def _scale_of(total: _Floats) -> float:
    """The power of two that brings the finite values near 1 where their squares would leave float64, else 1."""
    if total[_N] == 0:
        return 1.0
    largest = max(abs(total[_LOW]), abs(total[_HIGH]))
    if largest > _SQUARABLE or 0.0 < largest < 1.0 / _SQUARABLE:
        return float(2.0 ** -max(min(np.floor(np.log2(largest)), 1000.0), -1000.0))
    return 1.0


@njit(nogil=True, cache=True)
def _measure64(x: _Reals, total: _Floats, out: _Floats) -> None:
    for start in range(0, x.size, _CHUNK):
        _add_chunk64(x[start : start + _CHUNK], total)
    scale = _scale_of(total)
    if scale != 1.0:
        _clear(total)
        scaled = np.empty(_CHUNK)
        for start in range(0, x.size, _CHUNK):
            chunk = x[start : start + _CHUNK]
            for i in range(chunk.size):
                scaled[i] = chunk[i] * scale
            _add_chunk64(scaled[: chunk.size], total)
        total[_ZEROS] = 0.0
        for i in range(x.size):
            total[_ZEROS] += x[i] == 0.0
    _finish(total, x.size, scale, out)


@njit(nogil=True, cache=True)
def _measure_one(address: int, size: int, code: int, total: _Floats, values: _Singles, out: _Floats) -> None:
    _clear(total)
    if code == FLOAT64:
        _measure64(carray(_pointer(address), (size,), np.float64), total, out)
        return
    if code == FLOAT32:
        single = carray(_pointer(address), (size,), np.float32)
        for start in range(0, size, _CHUNK):
            _add_chunk32(single[start : start + _CHUNK], total)
    else:
        half = carray(_pointer(address), (size,), np.uint16)
        for start in range(0, size, _CHUNK):
            raw = half[start : start + _CHUNK]
            _decode(raw, code, values[: raw.size])
            _add_chunk32(values[: raw.size], total)
    _finish(total, size, 1.0, out)


@njit(nogil=True, cache=True)
def measure(address: int, size: int, code: int, out_address: int) -> None:
    """Nothing; writes the statistics of one array as ten float64 to `out_address`.

    Args:
        address: Where the first element lies.
        size: Number of elements, 0 or more.
        code: `FLOAT32`, `FLOAT64`, `FLOAT16` or `BFLOAT16`.
        out_address: Where the row of ten float64 lies.
    """
    values = np.empty(_CHUNK if code > FLOAT64 else 0, np.float32)
    _measure_one(address, size, code, np.empty(10), values, carray(_pointer(out_address), (10,), np.float64))


@njit(nogil=True, cache=True)
def measure_many(addresses: _Ints, sizes: _Ints, codes: _Ints, out: _Floats) -> float:
    """The norm over all arrays, NaN or infinity where one holds one; writes the statistics of array `i` to
    `out[i, :10]`. Arrays with address 0 are left out.

    Args:
        addresses: `(n,)` int64; sizes: `(n,)` int64; codes: `(n,)` int64.
        out: `(n, 10 or more)` float64.
    """
    total, values = np.empty(10), np.empty(_CHUNK, np.float32)
    squares, nans, infinities = 0.0, 0.0, 0.0
    for i in range(addresses.size):
        if addresses[i] != 0:
            _measure_one(addresses[i], sizes[i], codes[i], total, values, out[i])
            squares += out[i, 0] * out[i, 0]
            nans += out[i, 6]
            infinities += out[i, 7] + out[i, 8]
    if nans > 0.0:
        return np.nan
    return np.inf if infinities > 0.0 else np.sqrt(squares)


@njit(nogil=True, cache=True)
def _update64(now: _Reals, before: _Reals, total: _Floats, moved: _Floats, out: _Floats) -> None:
    """Statistics of `now` and of what moved since `before`, which becomes equal to `now`."""
    change = np.empty(_CHUNK)
    moved_total = np.empty(10)
    _clear(moved_total)
    for start in range(0, now.size, _CHUNK):
        new, old = now[start : start + _CHUNK], before[start : start + _CHUNK]
        for i in range(new.size):
            change[i] = new[i] - old[i]
            old[i] = new[i]
        _add_chunk64(new, total)
        _add_chunk64(change[: new.size], moved_total)
    if _scale_of(total) == 1.0:
        _finish(total, now.size, 1.0, out)
    else:
        _clear(total)
        _measure64(now, total, out)
    _finish(moved_total, now.size, 1.0, moved)


@njit(nogil=True, cache=True)
def _update32(now: _Reals, before: _Reals, total: _Floats, moved_total: _Floats, change: _Singles) -> None:
    # one loop: a slice assignment would check for overlap and cost twice the rest
    for i in range(now.size):
        value = now[i]
        change[i] = value - before[i]
        before[i] = value
    _add_chunk32(now, total)
    _add_chunk32(change[: now.size], moved_total)


@njit(nogil=True, cache=True)
def measure_updates(
    addresses: _Ints, sizes: _Ints, codes: _Ints, before: _Ints, norms: _Floats, out: _Floats, moved: _Floats
) -> None:
    """Nothing; one pass writes the statistics of weight `i` to `out[i]`, those of its change since the copy at
    `before[i]` to `moved[i]`, the ratio of the change to the weight to `moved[i, 10]`, and refreshes copy and norm.

    Args:
        addresses, sizes, codes: `(n,)` int64; address 0 is left out.
        before: `(n,)` int64, addresses of the copies, of the same dtype.
        norms: `(n,)` float64, norms of the copies.
        out: `(n, 10 or more)` float64; moved: `(n, 11 or more)` float64.
    """
    total, moved_total = np.empty(10), np.empty(10)
    values, old_values, change = (
        np.empty(_CHUNK, np.float32),
        np.empty(_CHUNK, np.float32),
        np.empty(_CHUNK, np.float32),
    )
    for i in range(addresses.size):
        if addresses[i] == 0:
            continue
        size, code = sizes[i], codes[i]
        _clear(total)
        _clear(moved_total)
        if code == FLOAT64:
            now64 = carray(_pointer(addresses[i]), (size,), np.float64)
            _update64(now64, carray(_pointer(before[i]), (size,), np.float64), total, moved[i], out[i])
        elif code == FLOAT32:
            now = carray(_pointer(addresses[i]), (size,), np.float32)
            copy = carray(_pointer(before[i]), (size,), np.float32)
            for start in range(0, size, _CHUNK):
                new, old = now[start : start + _CHUNK], copy[start : start + _CHUNK]
                _update32(new, old, total, moved_total, change)
        else:
            raw_now = carray(_pointer(addresses[i]), (size,), np.uint16)
            raw_copy = carray(_pointer(before[i]), (size,), np.uint16)
            for start in range(0, size, _CHUNK):
                raw, raw_old = raw_now[start : start + _CHUNK], raw_copy[start : start + _CHUNK]
                _decode(raw, code, values[: raw.size])
                _decode(raw_old, code, old_values[: raw.size])
                _update32(values[: raw.size], old_values[: raw.size], total, moved_total, change)
                for k in range(raw.size):
                    raw_old[k] = raw[k]
        if code != FLOAT64:
            _finish(total, size, 1.0, out[i])
            _finish(moved_total, size, 1.0, moved[i])
        moved[i, 10] = moved[i, 0] / (norms[i] + 1e-30)
        norms[i] = out[i, 0]
