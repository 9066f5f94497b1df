"""Ten statistics in one pass over memory, as `cpu.py` explains."""

import numpy as np
from numba import carray

from ..raw_memory import CHUNK, FLOAT32, FLOAT64, Floats, Reals, Singles
from .memory import FAST, compiled, decode, larger, pointer, smaller, stack

_TEN = stack(10 * 8)
_TEN_MOVED = stack(10 * 8)
_CHUNK_OF_SINGLES = stack(CHUNK * 4)
_CHUNK_OF_DOUBLES = stack(CHUNK * 8)

#: Smallest, largest, zeros.
Ends = tuple[float, float, float]

#: A chunk whose squared deviation is below this share of its squares is summed again around its mean; above it the
#: cancellation costs at most two of float64's sixteen digits. Our choice.
_CANCELLATION = 0.01

# Places in the running total of an array; the mean is kept relative to the first chunk's, so that it loses no digits.
N, MEAN, M2, LOW, HIGH, ZEROS, NANS, POS, NEG, SHIFT = range(10)


@compiled(fastmath=FAST)
def _sums(x: Reals) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for i in range(x.size):
        value = np.float64(x[i])
        total += value
        squares += value * value
    return total, squares


@compiled(fastmath=FAST)
def _ends(x: Reals) -> Ends:
    """Return the ends of elements that are all finite."""
    low, high, zeros = x[0], x[0], np.int32(0)
    for i in range(x.size):
        low, high = smaller(x[i], low), larger(x[i], high)
        zeros = np.int32(zeros + np.int32(x[i] == 0))
    return np.float64(low), np.float64(high), np.float64(zeros)


@compiled(fastmath=FAST)
def _centred(x: Reals, mean: float) -> tuple[float, float]:
    rest, squares = 0.0, 0.0
    for i in range(x.size):
        deviation = np.float64(x[i]) - mean
        rest += deviation
        squares += deviation * deviation
    return rest / x.size, squares - rest * rest / x.size


@compiled()
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


@compiled()
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
        deviation = value - mean if np.isfinite(value) else 0.0
        rest += deviation
        squares += deviation * deviation
    total[ZEROS] += zeros
    total[NANS] += nans
    total[POS] += positive
    total[NEG] += negative
    if n:
        # by position, as all calls between numba functions here
        _join(total, n, mean, rest / n, squares - rest * rest / n, low, high)


@compiled()
def _add_finite(x: Reals, total: Floats, summed: float, squares: float, ends: Ends) -> None:
    low, high, zeros = ends
    mean = summed / x.size
    correction, m2 = 0.0, squares - summed * mean
    if m2 < _CANCELLATION * squares:
        correction, m2 = _centred(x, mean)
    total[ZEROS] += zeros
    # by position, as above
    _join(total, x.size, mean, correction, max(m2, 0.0), low, high)


@compiled()
def add_chunk(x: Reals, total: Floats) -> None:
    """Add a chunk of float32 or float64, of one element or more, to the total."""
    summed, squares = _sums(x)
    if np.isfinite(squares):
        _add_finite(x, total, summed, squares, _ends(x))
    else:  # or the squares of float64 have left its range
        _add_careful(x, total)


@compiled()
def add_with_ends(x: Reals, total: Floats, ends: Ends) -> None:
    """Add a chunk whose ends are known already; they are ignored unless all of it is finite."""
    summed, squares = _sums(x)
    if np.isfinite(squares):
        _add_finite(x, total, summed, squares, ends)
    else:
        _add_careful(x, total)


@compiled()
def clear(total: Floats) -> None:
    """Reset the total to that of no elements."""
    total[:] = 0.0
    total[LOW], total[HIGH] = np.inf, -np.inf


#: Squares of float64 beyond this leave its range (or its precision, below the inverse): such arrays are scaled first.
_SQUARABLE = 1e150


@compiled()
def finish(total: Floats, size: int, scale: float, out: Floats) -> None:
    """Write the ten statistics to the row, of an array of this size whose elements were scaled so."""
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


@compiled()
def scale_of(total: Floats) -> float:
    """Return the power of two that brings the finite values near 1 where their squares would leave float64, else 1."""
    if total[N] == 0:
        return 1.0
    largest = max(abs(total[LOW]), abs(total[HIGH]))
    if largest > _SQUARABLE or 0.0 < largest < 1.0 / _SQUARABLE:
        return float(2.0 ** -max(min(np.floor(np.log2(largest)), 1000.0), -1000.0))
    return 1.0


@compiled()
def measure64(x: Reals, total: Floats, out: Floats) -> None:
    """Write the ten statistics of a float64 array to the row; the total starts empty."""
    for start in range(0, x.size, CHUNK):
        add_chunk(x[start : start + CHUNK], total)
    scale = scale_of(total)
    if scale != 1.0:
        clear(total)
        scaled = carray(_CHUNK_OF_DOUBLES(), (CHUNK,), np.float64)
        for start in range(0, x.size, CHUNK):
            chunk = x[start : start + CHUNK]
            for i in range(chunk.size):
                scaled[i] = chunk[i] * scale
            add_chunk(scaled[: chunk.size], total)
        total[ZEROS] = 0.0
        for i in range(x.size):
            total[ZEROS] += x[i] == 0.0
    finish(total, x.size, scale, out)


@compiled()
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


def measure(address: int, size: int, code: int, out_address: int) -> None:
    """Write the statistics of one array as ten float64 to `out_address`.

    Args:
        address: Where the first element lies.
        size: Number of elements, 0 or more.
        code: `FLOAT32`, `FLOAT64`, `FLOAT16` or `BFLOAT16`.
        out_address: Where the row of ten float64 lies.
    """
    total = carray(_TEN(), (10,), np.float64)
    values = carray(_CHUNK_OF_SINGLES(), (CHUNK,), np.float32)
    _measure_one(address, size, code, total, values, carray(pointer(out_address), (10,), np.float64))


def measure_many(count: int, addresses_at: int, sizes_at: int, codes_at: int, out_at: int, row_bytes: int) -> float:
    """Write the statistics of each of so many arrays to its row; return the norm over all, as `cpu.measure_many`."""
    addresses = carray(pointer(addresses_at), (count,), np.int64)
    sizes, codes = carray(pointer(sizes_at), (count,), np.int64), carray(pointer(codes_at), (count,), np.int64)
    total = carray(_TEN(), (10,), np.float64)
    values = carray(_CHUNK_OF_SINGLES(), (CHUNK,), np.float32)
    squares, nans, infinities = 0.0, 0.0, 0.0
    for i in range(count):
        if addresses[i] != 0:
            row = carray(pointer(out_at + i * row_bytes), (10,), np.float64)
            _measure_one(addresses[i], sizes[i], codes[i], total, values, row)
            squares += row[0] * row[0]
            nans += row[6]
            infinities += row[7] + row[8]
    if nans > 0.0:
        return np.nan
    return np.inf if infinities > 0.0 else np.sqrt(squares)


#: Weights, their copy and what moved share the first-level cache.
_UPDATE_CHUNK = CHUNK // 2
_HALF_OF_DOUBLES = stack(_UPDATE_CHUNK * 8)
_NEW, _OLD, _CHANGE = stack(_UPDATE_CHUNK * 4), stack(_UPDATE_CHUNK * 4), stack(_UPDATE_CHUNK * 4)


@compiled(fastmath=FAST)
def _ends_of_both(now: Reals, before: Reals, change: Reals) -> tuple[Ends, Ends]:
    """Return the ends of a chunk and of its change, written to `change`; make `before` equal to `now`.

    They mean nothing where something is not finite.
    """
    low, high, zeros = now[0], now[0], np.int32(0)
    least = most = now[0] - before[0]
    still = np.int32(0)
    for i in range(now.size):
        value, moved = now[i], now[i] - before[i]
        before[i], change[i] = value, moved
        low, high = smaller(value, low), larger(value, high)
        least, most = smaller(moved, least), larger(moved, most)
        zeros = np.int32(zeros + np.int32(value == 0))
        still = np.int32(still + np.int32(moved == 0))
    of_weight = np.float64(low), np.float64(high), np.float64(zeros)
    return of_weight, (np.float64(least), np.float64(most), np.float64(still))


@compiled()
def _add_both(now: Reals, before: Reals, total: Floats, moved_total: Floats, change: Reals) -> None:
    """Add a chunk to one total and its change to the other; make `before` equal to `now`."""
    of_weight, of_change = _ends_of_both(now, before, change)
    add_with_ends(now, total, of_weight)
    add_with_ends(change[: now.size], moved_total, of_change)


@compiled()
def _update64(now: Reals, before: Reals, total: Floats, moved: Floats, out: Floats) -> None:
    """Measure `now` and its change since `before`, which becomes equal to `now`."""
    change = carray(_HALF_OF_DOUBLES(), (_UPDATE_CHUNK,), np.float64)
    moved_total = carray(_TEN_MOVED(), (10,), np.float64)
    clear(moved_total)
    for start in range(0, now.size, _UPDATE_CHUNK):
        _add_both(now[start : start + _UPDATE_CHUNK], before[start : start + _UPDATE_CHUNK], total, moved_total, change)
    if scale_of(total) == 1.0:
        finish(total, now.size, 1.0, out)
    else:
        clear(total)
        measure64(now, total, out)
    finish(moved_total, now.size, 1.0, moved)


def measure_updates(
    count: int,
    addresses_at: int,
    sizes_at: int,
    codes_at: int,
    before_at: int,
    norms_at: int,
    out_at: int,
    row_bytes: int,
    moved_at: int,
    moved_bytes: int,
) -> None:
    """Measure so many weights and updates in one pass, as `cpu.measure_updates`."""
    addresses = carray(pointer(addresses_at), (count,), np.int64)
    sizes, codes = carray(pointer(sizes_at), (count,), np.int64), carray(pointer(codes_at), (count,), np.int64)
    before, norms = carray(pointer(before_at), (count,), np.int64), carray(pointer(norms_at), (count,), np.float64)
    total, moved_total = carray(_TEN(), (10,), np.float64), carray(_TEN_MOVED(), (10,), np.float64)
    values = carray(_NEW(), (_UPDATE_CHUNK,), np.float32)
    old_values = carray(_OLD(), (_UPDATE_CHUNK,), np.float32)
    change = carray(_CHANGE(), (_UPDATE_CHUNK,), np.float32)
    for i in range(count):
        if addresses[i] == 0:
            continue
        size, code = sizes[i], codes[i]
        out = carray(pointer(out_at + i * row_bytes), (10,), np.float64)
        moved = carray(pointer(moved_at + i * moved_bytes), (11,), np.float64)
        clear(total)
        clear(moved_total)
        if code == FLOAT64:
            now64 = carray(pointer(addresses[i]), (size,), np.float64)
            _update64(now64, carray(pointer(before[i]), (size,), np.float64), total, moved, out)
        elif code == FLOAT32:
            now = carray(pointer(addresses[i]), (size,), np.float32)
            copy = carray(pointer(before[i]), (size,), np.float32)
            for start in range(0, size, _UPDATE_CHUNK):
                new, old = now[start : start + _UPDATE_CHUNK], copy[start : start + _UPDATE_CHUNK]
                _add_both(new, old, total, moved_total, change)
        else:
            raw_now = carray(pointer(addresses[i]), (size,), np.uint16)
            raw_copy = carray(pointer(before[i]), (size,), np.uint16)
            for start in range(0, size, _UPDATE_CHUNK):
                raw, raw_old = raw_now[start : start + _UPDATE_CHUNK], raw_copy[start : start + _UPDATE_CHUNK]
                decode(raw, code, values[: raw.size])
                decode(raw_old, code, old_values[: raw.size])
                _add_both(values[: raw.size], old_values[: raw.size], total, moved_total, change)
                for k in range(raw.size):
                    raw_old[k] = raw[k]
        if code != FLOAT64:
            finish(total, size, 1.0, out)
            finish(moved_total, size, 1.0, moved)
        moved[10] = moved[0] / (norms[i] + 1e-30)
        norms[i] = out[0]
