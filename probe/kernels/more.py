"""Statistics on request: one more pass over an array that has just been measured, in chunks that stay in the cache.

    sum         of the finite elements, in float64
    abs_max     largest magnitude of the finite elements
    kurtosis    fourth moment around the mean over the squared variance, in float64; 3 for a normal distribution
    checksum    sum of a 64-bit mix of every element's bits, modulo 2^64, of which the upper 53 bits are kept: exact
                in float64, the same in any order, another when an element changes by a bit (but for a chance of 2^-53)
    quantiles   the values at ranks floor(q (n - 1)) of the n finite elements, from a histogram with 64 buckets to the
                octave: off by at most 1/128 of the value where its magnitude is in 1.2e-38 ... 3.4e38, by at most
                2e-40 below; never outside of minimum and maximum

Reference:
    Masson, Rim and Lee 2019, DDSketch, arXiv:1908.10693 (buckets of relative width); Steele, Lea and Flood 2014 (mix).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import carray, njit
from numpy.typing import NDArray

from .cpu import STATISTICS, add_chunk, clear, finish, measure
from .raw_memory import CHUNK, FAST, FLOAT32, FLOAT64, Floats, Ints, Reals, decode, pointer

__all__ = [
    "DROPPED",
    "FLAGS",
    "MORE",
    "NO_MORE",
    "QUANTILES",
    "More",
    "measure_checked",
    "measure_more",
    "measure_more_many",
    "mixed_bits",
]

#: The quantiles by their columns.
QUANTILES: Final = {"q01": 0.01, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95, "q99": 0.99}

#: The statistics on request and the columns that each fills. `_write` fills them in this order, and so does
#: `device_statistics.requested_on_device` on a device.
MORE: Final[dict[str, tuple[str, ...]]] = {
    "sum": ("sum",),
    "abs_max": ("abs_max",),
    "kurtosis": ("kurtosis",),
    "checksum": ("checksum",),
    "quantiles": tuple(QUANTILES),
}
#: The flag of each, as the kernels take it.
FLAGS: Final = {name: 1 << bit for bit, name in enumerate(MORE)}
_SUM, _ABS_MAX, _KURTOSIS = FLAGS["sum"], FLAGS["abs_max"], FLAGS["kurtosis"]
_CHECKSUM, _QUANTILES = FLAGS["checksum"], FLAGS["quantiles"]
_COLUMNS = sum(len(columns) for columns in MORE.values())

#: Sums that `_add` takes over all elements: of the values, and of the fourth powers.
_TOTALS = 2

_RANKS = np.array(list(QUANTILES.values()))
_SHIFT = np.int32(17)  # of float32 this leaves sign, exponent and six bits of the mantissa
_BUCKETS, _HALF = 1 << 15, 1 << 14
_TOP = np.int32(31)
_MASK = np.int32(0x7FFFFFFF)
_LARGEST = float(np.finfo(np.float32).max)
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_FOLD, DROPPED = np.uint64(32), np.uint64(11)
_BITS = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class More:
    """Which of them a monitor wants.

    Args:
        flags: As the kernels take them; 0 for none.
        columns: Behind the ten of every row.
    """

    flags: int = 0
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str]) -> "More":
        """Return the statistics of these names, in the order of `MORE`."""
        wanted = [name for name in MORE if name in names]
        return cls(
            sum(FLAGS[name] for name in wanted),
            tuple(column for name in wanted for column in MORE[name]),
        )

    def kernel(self) -> Callable[[int, int, int, int], None]:
        """`measure(address, size, code, out_address)` that fills a row with the ten statistics and with these."""
        if not self.flags:
            return measure  # type: ignore[no-any-return]
        flags, column = self.flags, len(STATISTICS)

        def measure_all(address: int, size: int, code: int, out_address: int) -> None:
            measure(address, size, code, out_address)
            measure_more(address, size, code, out_address, column, flags)

        return measure_all


#: No statistics on request.
NO_MORE: Final = More()


@njit(fastmath=FAST, nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def mixed_bits(bits: _BITS) -> np.uint64:
    """Sum of the mixes of these words, modulo 2^64; the checksum is what is left when the lowest bits are dropped."""
    total = np.uint64(0)
    for i in range(bits.size):
        bits_mixed = (np.uint64(bits[i]) + _STEP) * _MIX
        total += bits_mixed ^ (bits_mixed >> _FOLD)
    return total * _STEP  # one multiplication for all elements


@njit(nogil=True, cache=True)
def _count32(x: NDArray[np.float32], counts: NDArray[np.uint32]) -> None:
    bits = x.view(np.int32)
    for i in range(x.size):
        if abs(x[i]) < np.inf:
            ordered = np.int32(bits[i] ^ ((bits[i] >> _TOP) & _MASK))
            counts[(ordered >> _SHIFT) + _HALF] += np.uint32(1)


@njit(nogil=True, cache=True)
def _count64(x: NDArray[np.float64], single: NDArray[np.float32], counts: NDArray[np.uint32]) -> None:
    for i in range(x.size):
        value = x[i]
        single[i] = min(max(value, -_LARGEST), _LARGEST) if abs(value) < np.inf else np.nan
    _count32(single[: x.size], counts)


@njit(nogil=True, cache=True)
def _middle(bucket: int) -> float:
    if bucket == _HALF or bucket == _HALF - 1:
        return 0.0  # the two buckets nearest to zero, of either sign
    ends, values = np.empty(2, np.int32), np.empty(2)
    low = np.int32((bucket - _HALF) << _SHIFT)
    ends[0], ends[1] = low, np.int32(low + np.int32((1 << _SHIFT) - 1))
    for i in range(2):
        ends[i] = ends[i] ^ ((ends[i] >> _TOP) & _MASK)
        values[i] = np.float64(ends.view(np.float32)[i])
    return float(0.5 * values[0] + 0.5 * values[1])


@njit(nogil=True, cache=True)
def _quantiles(counts: NDArray[np.uint32], low: float, high: float, out: Floats) -> None:
    n = 0
    for bucket in range(_BUCKETS):
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


@njit(nogil=True, cache=True)
def _scale_of(row: Floats) -> float:
    return 2.0 / row[2] if row[2] > 0.0 else np.nan


@njit(nogil=True, cache=True)
def _walk(address: int, size: int, code: int, row: Floats, flags: int, totals: Floats, counts: object) -> np.uint64:
    """Return the mixed bits; add the rest to `totals` and `counts`."""
    mixed, mean, scale = np.uint64(0), row[1], _scale_of(row)
    single = np.empty(CHUNK, np.float32)
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


@njit(nogil=True, cache=True)
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
        row[column] = np.float64(mixed >> DROPPED)
        column += 1
    if flags & _QUANTILES:
        _quantiles(counts, row[3], row[4], row[column : column + _RANKS.size])


@njit(nogil=True, cache=True)
def _more(address: int, size: int, code: int, row: Floats, column: int, flags: int) -> None:
    totals = np.zeros(_TOTALS)
    counts = np.zeros(_BUCKETS if flags & _QUANTILES else 0, np.uint32)
    mixed = np.uint64(0)
    if flags & ~_ABS_MAX:
        # by position, as all calls between numba functions here
        mixed = _walk(address, size, code, row, flags, totals, counts)
    _write(row, column, flags, totals, mixed, counts)


@njit(nogil=True, cache=True)
def measure_more(address: int, size: int, code: int, out_address: int, column: int, flags: int) -> None:
    """Add the statistics of the flags to the row at `out_address`, whose first ten `measure` has filled.

    Args:
        address, size, code: The array, as `measure` takes it.
        out_address: Where the row lies.
        column: Column of the first of them.
        flags: Of `More`.
    """
    _more(address, size, code, carray(pointer(out_address), (column + _COLUMNS,), np.float64), column, flags)


@njit(nogil=True, cache=True)
def measure_more_many(addresses: Ints, sizes: Ints, codes: Ints, out: Floats, column: int, flags: int) -> None:
    """Add the statistics of the flags to the row `out[i]` of every array whose address is not 0."""
    for i in range(addresses.size):
        if addresses[i] != 0:
            _more(addresses[i], sizes[i], codes[i], out[i], column, flags)


@njit(nogil=True, cache=True)
def measure_checked(address: int, size: int, out_address: int) -> int:
    """Write the ten statistics to the row at `out_address`; return the 53-bit mix of the eight-byte words.

    Args:
        address: Where the first float32 lies.
        size: Number of elements, 0 or more; the last one of an odd number is in no word.
        out_address: Where the row of ten float64 lies.
    """
    values = carray(pointer(address), (size,), np.float32)
    words = carray(pointer(address), (size // 2,), np.uint64)
    total, mixed = np.empty(10), np.uint64(0)
    clear(total)
    for start in range(0, size, CHUNK):
        add_chunk(values[start : start + CHUNK], total)
        mixed += mixed_bits(words[start // 2 : (start + CHUNK) // 2])
    finish(total, size, 1.0, carray(pointer(out_address), (10,), np.float64))
    return int(mixed >> DROPPED)
