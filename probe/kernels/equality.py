"""Whether arrays still hold what their copies hold: bits are compared, and nothing else is read."""

from typing import Any

import numpy as np
from numba import carray, njit

from .memory import CHUNK, FLOAT32, FLOAT64, Ints, pointer


@njit(nogil=True, cache=True)
def _is_same(now: Any, copy: Any) -> bool:  # Any: unsigned integers of 16, 32 or 64 bits
    for start in range(0, now.size, CHUNK):
        bits, held = now[start : start + CHUNK], copy[start : start + CHUNK]
        differs = False
        for i in range(bits.size):
            differs |= bits[i] != held[i]
        if differs:
            return False
    return True


@njit(nogil=True, cache=True)
def are_same(addresses: Ints, sizes: Ints, codes: Ints, copies: Ints) -> bool:
    """Whether every array has the bits of its copy; arrays with address 0 are left out.

    Args:
        addresses, sizes, codes: `(n,)` int64.
        copies: `(n,)` int64, addresses of as many elements of the same dtypes.
    """
    for i in range(addresses.size):
        if addresses[i] == 0:
            continue
        size, code = (sizes[i],), codes[i]
        now, copy = pointer(addresses[i]), pointer(copies[i])
        if code == FLOAT32:
            is_same = _is_same(carray(now, size, np.uint32), carray(copy, size, np.uint32))
        elif code == FLOAT64:
            is_same = _is_same(carray(now, size, np.uint64), carray(copy, size, np.uint64))
        else:
            is_same = _is_same(carray(now, size, np.uint16), carray(copy, size, np.uint16))
        if not is_same:
            return False
    return True
