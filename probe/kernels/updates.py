"""What an optimizer's step did to every parameter: weight and change are measured as both are read, in one pass."""

import numpy as np
from numba import carray, njit

from .chunks import MASK32, TOP32, Sums, add_chunk64, add_sums32, clear
from .cpu import finish, measure64, scale_of
from .memory import CHUNK, FAST, FLOAT32, FLOAT64, Floats, Integers, Ints, Reals, Singles, bits_of, decode, pointer


@njit(nogil=True, cache=True)
def _update64(now: Reals, before: Reals, total: Floats, moved: Floats, out: Floats) -> None:
    """Statistics of `now` and of what moved since `before`, which becomes equal to `now`."""
    change = np.empty(CHUNK)
    moved_total = np.empty(10)
    clear(moved_total)
    for start in range(0, now.size, CHUNK):
        new, old = now[start : start + CHUNK], before[start : start + CHUNK]
        for i in range(new.size):
            change[i] = new[i] - old[i]
            old[i] = new[i]
        add_chunk64(new, total)
        add_chunk64(change[: new.size], moved_total)
    if scale_of(total) == 1.0:
        finish(total, now.size, 1.0, out)
    else:
        clear(total)
        measure64(now, total, out)
    finish(moved_total, now.size, 1.0, moved)


@njit(fastmath=FAST, nogil=True, cache=True)
def _sums_of_both(now: Singles, bits: Integers, before: Singles, change: Singles) -> tuple[Sums, Sums]:
    """The sums of a chunk and of what moved in it, which `change` takes; `before` becomes equal to `now`."""
    total, squares, zeros = 0.0, 0.0, np.int32(0)
    low, high = MASK32, np.int32(~MASK32)
    moved, moved_squares, still = 0.0, 0.0, np.int32(0)
    least, most = MASK32, np.int32(~MASK32)
    for i in range(now.size):
        value = np.float64(now[i])
        total += value
        squares += value * value
        ordered = np.int32(bits[i] ^ ((bits[i] >> TOP32) & MASK32))
        low = min(low, ordered)
        high = max(high, ordered)
        zeros = np.int32(zeros + np.int32((bits[i] & MASK32) == 0))
        difference = np.float32(now[i] - before[i])
        before[i] = now[i]
        change[i] = difference
        step = np.float64(difference)
        moved += step
        moved_squares += step * step
        raw = bits_of(difference)
        ordered = np.int32(raw ^ ((raw >> TOP32) & MASK32))
        least = min(least, ordered)
        most = max(most, ordered)
        still = np.int32(still + np.int32((raw & MASK32) == 0))
    return (total, squares, low, high, zeros), (moved, moved_squares, least, most, still)


@njit(nogil=True, cache=True)
def _update32(now: Singles, before: Singles, total: Floats, moved_total: Floats, change: Singles) -> None:
    of_weight, of_change = _sums_of_both(now, now.view(np.int32), before, change)
    add_sums32(now, total, of_weight)
    add_sums32(change[: now.size], moved_total, of_change)


@njit(nogil=True, cache=True)
def measure_updates(
    addresses: Ints, sizes: Ints, codes: Ints, before: Ints, norms: Floats, out: Floats, moved: Floats
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
        np.empty(CHUNK, np.float32),
        np.empty(CHUNK, np.float32),
        np.empty(CHUNK, np.float32),
    )
    for i in range(addresses.size):
        if addresses[i] == 0:
            continue
        size, code = sizes[i], codes[i]
        clear(total)
        clear(moved_total)
        if code == FLOAT64:
            now64 = carray(pointer(addresses[i]), (size,), np.float64)
            _update64(now64, carray(pointer(before[i]), (size,), np.float64), total, moved[i], out[i])
        elif code == FLOAT32:
            now = carray(pointer(addresses[i]), (size,), np.float32)
            copy = carray(pointer(before[i]), (size,), np.float32)
            for start in range(0, size, CHUNK):
                new, old = now[start : start + CHUNK], copy[start : start + CHUNK]
                _update32(new, old, total, moved_total, change)
        else:
            raw_now = carray(pointer(addresses[i]), (size,), np.uint16)
            raw_copy = carray(pointer(before[i]), (size,), np.uint16)
            for start in range(0, size, CHUNK):
                raw, raw_old = raw_now[start : start + CHUNK], raw_copy[start : start + CHUNK]
                decode(raw, code, values[: raw.size])
                decode(raw_old, code, old_values[: raw.size])
                _update32(values[: raw.size], old_values[: raw.size], total, moved_total, change)
                for k in range(raw.size):
                    raw_old[k] = raw[k]
        if code != FLOAT64:
            finish(total, size, 1.0, out[i])
            finish(moved_total, size, 1.0, moved[i])
        moved[i, 10] = moved[i, 0] / (norms[i] + 1e-30)
        norms[i] = out[i, 0]
