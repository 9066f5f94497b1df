"""What an optimizer's step did to every parameter: weight and change are measured as both are read, in one pass."""

import numpy as np
from numba import carray, njit

from .chunks import Ends, add_with_ends, clear
from .cpu import finish, measure64, scale_of
from .memory import CHUNK, FAST, FLOAT32, FLOAT64, Floats, Ints, Reals, decode, larger, pointer, smaller

#: Weights, their copy and what moved share the first-level cache.
_CHUNK = CHUNK // 2


@njit(fastmath=FAST, nogil=True, cache=True)
def _ends_of_both(now: Reals, before: Reals, change: Reals) -> tuple[Ends, Ends]:
    """The ends of a chunk and of what moved in it, which `change` takes; `before` becomes equal to `now`.

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


@njit(nogil=True, cache=True)
def _add_both(now: Reals, before: Reals, total: Floats, moved_total: Floats, change: Reals) -> None:
    """Adds a chunk to one total and what moved in it to the other; `before` becomes equal to `now`."""
    of_weight, of_change = _ends_of_both(now, before, change)
    add_with_ends(now, total, of_weight)
    add_with_ends(change[: now.size], moved_total, of_change)


@njit(nogil=True, cache=True)
def _update64(now: Reals, before: Reals, total: Floats, moved: Floats, out: Floats) -> None:
    """Statistics of `now` and of what moved since `before`, which becomes equal to `now`."""
    change = np.empty(_CHUNK)
    moved_total = np.empty(10)
    clear(moved_total)
    for start in range(0, now.size, _CHUNK):
        _add_both(now[start : start + _CHUNK], before[start : start + _CHUNK], total, moved_total, change)
    if scale_of(total) == 1.0:
        finish(total, now.size, 1.0, out)
    else:
        clear(total)
        measure64(now, total, out)
    finish(moved_total, now.size, 1.0, moved)


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
        np.empty(_CHUNK, np.float32),
        np.empty(_CHUNK, np.float32),
        np.empty(_CHUNK, np.float32),
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
            for start in range(0, size, _CHUNK):
                new, old = now[start : start + _CHUNK], copy[start : start + _CHUNK]
                _add_both(new, old, total, moved_total, change)
        else:
            raw_now = carray(pointer(addresses[i]), (size,), np.uint16)
            raw_copy = carray(pointer(before[i]), (size,), np.uint16)
            for start in range(0, size, _CHUNK):
                raw, raw_old = raw_now[start : start + _CHUNK], raw_copy[start : start + _CHUNK]
                decode(raw, code, values[: raw.size])
                decode(raw_old, code, old_values[: raw.size])
                _add_both(values[: raw.size], old_values[: raw.size], total, moved_total, change)
                for k in range(raw.size):
                    raw_old[k] = raw[k]
        if code != FLOAT64:
            finish(total, size, 1.0, out[i])
            finish(moved_total, size, 1.0, moved[i])
        moved[i, 10] = moved[i, 0] / (norms[i] + 1e-30)
        norms[i] = out[i, 0]
