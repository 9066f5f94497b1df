"""Ten statistics of an array in one pass over its memory, for one array or for all arrays of a step in one call.

Arrays are given by address, size and dtype code: the caller keeps them alive and contiguous.
"""

from typing import Final

import numpy as np
from numba import carray, njit

from .chunks import HIGH, LOW, M2, MEAN, NANS, NEG, POS, SHIFT, ZEROS, N, add_chunk, clear
from .memory import CHUNK, FLOAT32, FLOAT64, Floats, Ints, Reals, Singles, decode, pointer

#: The columns of a row, in order; minimum, maximum, mean, std and norm are those of the finite elements.
STATISTICS: Final = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")

#: Squares of float64 beyond this leave its range (or its precision, below the inverse): such arrays are scaled first.
_SQUARABLE = 1e150


@njit(nogil=True, cache=True)
def finish(total: Floats, size: int, scale: float, out: Floats) -> None:
    """Nothing; the row has the ten statistics of an array of so many elements, each of which was scaled so."""
    n = total[N]
    mean = total[SHIFT] + total[MEAN] if n else np.nan
    out[0] = np.sqrt(total[M2] + n * mean * mean) / scale
    out[1] = mean / scale
    out[2] = np.sqrt(total[M2] / n) / scale if n else np.nan
    out[3] = total[LOW] / scale if n else np.nan
    out[4] = total[HIGH] / scale if n else np.nan
    out[5] = total[ZEROS]
    out[6] = total[NANS]
    out[7] = total[POS]
    out[8] = total[NEG]
    out[9] = size


@njit(nogil=True, cache=True)
def scale_of(total: Floats) -> float:
    """The power of two that brings the finite values near 1 where their squares would leave float64, else 1."""
    if total[N] == 0:
        return 1.0
    largest = max(abs(total[LOW]), abs(total[HIGH]))
    if largest > _SQUARABLE or 0.0 < largest < 1.0 / _SQUARABLE:
        return float(2.0 ** -max(min(np.floor(np.log2(largest)), 1000.0), -1000.0))
    return 1.0


@njit(nogil=True, cache=True)
def measure64(x: Reals, total: Floats, out: Floats) -> None:
    """Nothing; the row has the ten statistics of a float64 array; the total is that of no chunk."""
    for start in range(0, x.size, CHUNK):
        add_chunk(x[start : start + CHUNK], total)
    scale = scale_of(total)
    if scale != 1.0:
        clear(total)
        scaled = np.empty(CHUNK)
        for start in range(0, x.size, CHUNK):
            chunk = x[start : start + CHUNK]
            for i in range(chunk.size):
                scaled[i] = chunk[i] * scale
            add_chunk(scaled[: chunk.size], total)
        total[ZEROS] = 0.0
        for i in range(x.size):
            total[ZEROS] += x[i] == 0.0
    finish(total, x.size, scale, out)


@njit(nogil=True, cache=True)
def _measure_one(address: int, size: int, code: int, total: Floats, values: Singles, out: Floats) -> None:
    clear(total)
    if code == FLOAT64:
        measure64(carray(pointer(address), (size,), np.float64), total, out)
        return
    if code == FLOAT32:
        single = carray(pointer(address), (size,), np.float32)
        for start in range(0, size, CHUNK):
            add_chunk(single[start : start + CHUNK], total)
    else:
        half = carray(pointer(address), (size,), np.uint16)
        for start in range(0, size, CHUNK):
            raw = half[start : start + CHUNK]
            decode(raw, code, values[: raw.size])
            add_chunk(values[: raw.size], total)
    finish(total, size, 1.0, out)


@njit(nogil=True, cache=True)
def measure(address: int, size: int, code: int, out_address: int) -> None:
    """Nothing; writes the statistics of one array as ten float64 to `out_address`.

    Args:
        address: Where the first element lies.
        size: Number of elements, 0 or more.
        code: `FLOAT32`, `FLOAT64`, `FLOAT16` or `BFLOAT16`.
        out_address: Where the row of ten float64 lies.
    """
    values = np.empty(CHUNK if code > FLOAT64 else 0, np.float32)
    _measure_one(address, size, code, np.empty(10), values, carray(pointer(out_address), (10,), np.float64))


@njit(nogil=True, cache=True)
def measure_many(addresses: Ints, sizes: Ints, codes: Ints, out: Floats) -> float:
    """The norm over all arrays, NaN or infinity where one holds one; writes the statistics of array `i` to
    `out[i, :10]`. Arrays with address 0 are left out.

    Args:
        addresses: `(n,)` int64; sizes: `(n,)` int64; codes: `(n,)` int64.
        out: `(n, 10 or more)` float64.
    """
    total, values = np.empty(10), np.empty(CHUNK, np.float32)
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
