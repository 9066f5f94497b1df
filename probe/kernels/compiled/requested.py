"""Statistics on request, as `more.py` defines them."""

from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from ..more import BUCKETS, COLUMNS, DROPPED, FLAGS, QUANTILES
from ..raw_memory import CHUNK, FLOAT32, FLOAT64, Floats, Reals
from .memory import FAST, compiled, decode, pointer, stack
from .statistics import add_chunk, clear, finish

#: Sums that `_add` takes over all elements: of the values, and of the fourth powers.
_TOTALS = 2
_SUM, _ABS_MAX, _KURTOSIS = FLAGS["sum"], FLAGS["abs_max"], FLAGS["kurtosis"]
_CHECKSUM, _QUANTILES = FLAGS["checksum"], FLAGS["quantiles"]
_RANKS = np.array(list(QUANTILES.values()))
_SHIFT = np.int32(17)  # of float32 this leaves sign, exponent and six bits of the mantissa
_HALF = BUCKETS // 2
_TOP = np.int32(31)
_MASK = np.int32(0x7FFFFFFF)
_LARGEST = float(np.finfo(np.float32).max)
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_FOLD, _DROPPED = np.uint64(32), np.uint64(DROPPED)
_BITS = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]
_SINGLES = stack(CHUNK * 4)
_TOTALS_ROOM, _TEN, _ENDS, _VALUES = stack(_TOTALS * 8), stack(10 * 8), stack(2 * 4), stack(2 * 8)


@compiled(fastmath=FAST)
def _add(x: Reals, mean: float, scale: float, flags: int, totals: Floats) -> None:
    """Add to `totals` what the flags need: the sum, and the fourth powers around the mean in units of the deviation."""
    if flags & _SUM:
        summed = 0.0
        for i in range(x.size):
            value = np.float64(x[i])
            summed += value if abs(value) < np.inf else 0.0
        totals[0] += summed
    if flags & _KURTOSIS:
        fourth, half = 0.0, 0.5 * mean  # by halves: the difference of two large numbers must not overflow
        for i in range(x.size):
            value = np.float64(x[i])
            deviation = (0.5 * value - half) * scale if abs(value) < np.inf else 0.0
            fourth += deviation * deviation * deviation * deviation
        totals[1] += fourth


@compiled()
def mixed_bits(bits: _BITS) -> np.uint64:
    """Sum of the mixes of these words, modulo 2^64; the checksum is what is left when the lowest bits are dropped."""
    total = np.uint64(0)
    for i in range(bits.size):
        bits_mixed = (np.uint64(bits[i]) + _STEP) * _MIX
        total += bits_mixed ^ (bits_mixed >> _FOLD)
    return total * _STEP  # one multiplication for all elements


@compiled()
def _count32(x: NDArray[np.float32], counts: NDArray[np.uint32]) -> None:
    bits = x.view(np.int32)
    for i in range(x.size):
        if abs(x[i]) < np.inf:
            ordered = np.int32(bits[i] ^ ((bits[i] >> _TOP) & _MASK))
            counts[(ordered >> _SHIFT) + _HALF] += np.uint32(1)


@compiled()
def _count64(x: NDArray[np.float64], single: NDArray[np.float32], counts: NDArray[np.uint32]) -> None:
    for i in range(x.size):
        value = x[i]
        single[i] = min(max(value, -_LARGEST), _LARGEST) if abs(value) < np.inf else np.nan
    _count32(single[: x.size], counts)


@compiled()
def _middle(bucket: int) -> float:
    if bucket == _HALF or bucket == _HALF - 1:
        return 0.0  # the two buckets nearest to zero, of either sign
    ends, values = carray(_ENDS(), (2,), np.int32), carray(_VALUES(), (2,), np.float64)
    low = np.int32((bucket - _HALF) << _SHIFT)
    ends[0], ends[1] = low, np.int32(low + np.int32((1 << _SHIFT) - 1))
    for i in range(2):
        ends[i] = ends[i] ^ ((ends[i] >> _TOP) & _MASK)
        values[i] = np.float64(ends.view(np.float32)[i])
    return float(0.5 * values[0] + 0.5 * values[1])


@compiled()
def _quantiles(counts: NDArray[np.uint32], low: float, high: float, out: Floats) -> None:
    n = 0
    for bucket in range(BUCKETS):
        n += counts[bucket]
    if n == 0:
        out[:] = np.nan
        return
    seen, bucket = np.int64(counts[0]), 0
    for i in range(out.size):
        rank = np.int64(np.floor(_RANKS[i] * (n - 1)))
        while seen <= rank:
            bucket += 1
            seen += counts[bucket]
        out[i] = min(max(_middle(bucket), low), high)


@compiled()
def _scale_of(row: Floats) -> float:
    return 2.0 / row[2] if row[2] > 0.0 else np.nan


@compiled()
def _walk(address: int, size: int, code: int, row: Floats, flags: int, totals: Floats, counts: object) -> np.uint64:
    """Return the mixed bits; add the rest to `totals` and `counts`."""
    mixed, mean, scale = np.uint64(0), row[1], _scale_of(row)
    single = carray(_SINGLES(), (CHUNK,), np.float32)
    for start in range(0, size, CHUNK):
        count = min(CHUNK, size - start)
        if code == FLOAT64:
            wide = carray(pointer(address + 8 * start), (count,), np.float64)
            _add(wide, mean, scale, flags, totals)
            if flags & _CHECKSUM:
                mixed += mixed_bits(wide.view(np.uint64))
            if flags & _QUANTILES:
                _count64(wide, single, counts)
            continue
        if code == FLOAT32:
            x = carray(pointer(address + 4 * start), (count,), np.float32)
            if flags & _CHECKSUM:
                mixed += mixed_bits(x.view(np.uint32))
        else:
            raw = carray(pointer(address + 2 * start), (count,), np.uint16)
            decode(raw, code, single[:count])
            x = single[:count]
            if flags & _CHECKSUM:
                mixed += mixed_bits(raw)
        _add(x, mean, scale, flags, totals)
        if flags & _QUANTILES:
            _count32(x, counts)
    return mixed


@compiled()
def _write(row: Floats, column: int, flags: int, totals: Floats, mixed: np.uint64, counts: object) -> None:
    n = row[9] - row[6] - row[7] - row[8]
    if flags & _SUM:
        row[column] = totals[0]
        column += 1
    if flags & _ABS_MAX:
        row[column] = max(abs(row[3]), abs(row[4])) if n > 0 else np.nan
        column += 1
    if flags & _KURTOSIS:
        row[column] = totals[1] / n if n > 0 and row[2] > 0.0 else np.nan
        column += 1
    if flags & _CHECKSUM:
        row[column] = np.float64(mixed >> _DROPPED)
        column += 1
    if flags & _QUANTILES:
        _quantiles(counts, row[3], row[4], row[column : column + _RANKS.size])


@compiled()
def _more(address: int, size: int, code: int, row: Floats, column: int, flags: int, counts: Any) -> None:
    totals = carray(_TOTALS_ROOM(), (_TOTALS,), np.float64)
    totals[:] = 0.0
    counts[:] = 0
    mixed = np.uint64(0)
    if flags & ~_ABS_MAX:
        # by position, as all calls between compiled functions here
        mixed = _walk(address, size, code, row, flags, totals, counts)
    _write(row, column, flags, totals, mixed, counts)


def measure_more(
    address: int, size: int, code: int, row_at: int, column: int, flags: int, counts_at: int, buckets: int
) -> None:
    """Add the statistics of the flags to the row, as `more.measure_more`; `counts_at` has room for all buckets."""
    row = carray(pointer(row_at), (column + COLUMNS,), np.float64)
    # by position, as all calls between compiled functions here
    _more(address, size, code, row, column, flags, carray(pointer(counts_at), (buckets,), np.uint32))


def measure_more_many(
    count: int,
    addresses_at: int,
    sizes_at: int,
    codes_at: int,
    out_at: int,
    row_bytes: int,
    column: int,
    flags: int,
    counts_at: int,
    buckets: int,
) -> None:
    """Add the statistics of the flags to the rows of so many arrays, as `more.measure_more_many`."""
    addresses = carray(pointer(addresses_at), (count,), np.int64)
    sizes, codes = carray(pointer(sizes_at), (count,), np.int64), carray(pointer(codes_at), (count,), np.int64)
    counts = carray(pointer(counts_at), (buckets,), np.uint32)
    for i in range(count):
        if addresses[i] != 0:
            row = carray(pointer(out_at + i * row_bytes), (column + COLUMNS,), np.float64)
            _more(addresses[i], sizes[i], codes[i], row, column, flags, counts)


def measure_checked(address: int, size: int, out_address: int) -> int:
    """Write the ten statistics to the row; return the 53-bit mix of the words, as `more.measure_checked`."""
    values = carray(pointer(address), (size,), np.float32)
    words = carray(pointer(address), (size // 2,), np.uint64)
    total, mixed = carray(_TEN(), (10,), np.float64), np.uint64(0)
    clear(total)
    for start in range(0, size, CHUNK):
        add_chunk(values[start : start + CHUNK], total)
        mixed += mixed_bits(words[start // 2 : (start + CHUNK) // 2])
    finish(total, size, 1.0, carray(pointer(out_address), (10,), np.float64))
    return int(mixed >> _DROPPED)
