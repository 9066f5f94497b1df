"""Which units of a layer were zero for every sample of an evenly spread few, read where the output lies."""

import numpy as np
from numba import carray, njit

from .memory import FLOAT32, FLOAT64, pointer

#: All bits but the sign: those of zero, of either sign, are not set.
_MAGNITUDE64, _MAGNITUDE32, _MAGNITUDE16 = np.int64(0x7FFFFFFFFFFFFFFF), np.int32(0x7FFFFFFF), np.uint16(0x7FFF)


@njit(nogil=True, cache=True)
def count_silent(
    address: int,
    code: int,
    units: int,
    inner: int,
    first: int,
    stride: int,
    count: int,
    silent_at: int,
    looks: int,
) -> int:
    """How many units were zero at every sample of this look and of those before it, so many looks together.

    Args:
        address: Where an output `(outer, units, inner)` lies, whose samples are `outer` times `inner`.
        code: Of its dtype.
        first, stride, count: Which samples are looked at.
        silent_at: Where for every unit the number of its last looks in a row lies that it was zero at, as int64;
            this one is added.
        looks: Of how many looks.
    """
    silent = carray(pointer(silent_at), (units,), np.int64)
    silent += 1
    size = 8 if code == FLOAT64 else 4 if code == FLOAT32 else 2
    for sample in range(first, first + stride * count, stride):
        begin = address + size * ((sample // inner) * units * inner + sample % inner)
        length = (units - 1) * inner + 1
        if code == FLOAT64:
            wide = carray(pointer(begin), (length,), np.int64)
            for unit in range(units):
                silent[unit] = silent[unit] if (wide[unit * inner] & _MAGNITUDE64) == 0 else 0
        elif code == FLOAT32:
            single = carray(pointer(begin), (length,), np.int32)
            for unit in range(units):
                silent[unit] = silent[unit] if (single[unit * inner] & _MAGNITUDE32) == 0 else 0
        else:
            half = carray(pointer(begin), (length,), np.uint16)
            for unit in range(units):
                silent[unit] = silent[unit] if (half[unit * inner] & _MAGNITUDE16) == 0 else 0
    found = 0
    for unit in range(units):
        found += silent[unit] >= looks
    return found
