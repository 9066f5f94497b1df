"""How arrays are compared, as `fingerprints.py` explains."""

import numpy as np
from numba import carray
from numpy.typing import NDArray

from ..raw_memory import CHUNK, FLOAT32, FLOAT64
from .memory import compiled, pointer

_Words = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]
_STEP, _TOP, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(63), np.uint64(1)


@compiled()
def _is_same(now: _Words, copy: _Words) -> bool:
    for start in range(0, now.size, CHUNK):
        bits, copied = now[start : start + CHUNK], copy[start : start + CHUNK]
        differs = False
        for i in range(bits.size):
            differs |= bits[i] != copied[i]
        if differs:
            return False
    return True


def are_same(count: int, addresses_at: int, sizes_at: int, codes_at: int, copies_at: int) -> bool:
    """Return whether every one of so many arrays has the bits of its copy, as `fingerprints.are_same`."""
    addresses, sizes = carray(pointer(addresses_at), (count,), np.int64), carray(pointer(sizes_at), (count,), np.int64)
    codes, copies = carray(pointer(codes_at), (count,), np.int64), carray(pointer(copies_at), (count,), np.int64)
    for i in range(count):
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


@compiled()
def _project(values: NDArray[np.float32] | NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Add to `out`, `(2,)`, the sum of the values and the sum under signs that depend on the position only."""
    plain, signed = 0.0, 0.0
    hashed = np.uint64(0)
    for i in range(values.size):
        hashed += _STEP
        mixed = (hashed ^ (hashed >> np.uint64(29))) * _STEP
        value = np.float64(values[i])
        plain += value
        signed += value if (mixed >> _TOP) & _ONE else -value
    out[0] += plain
    out[1] += signed


def project(address: int, size: int, code: int, out_at: int) -> None:
    """Add two sums of float32 or float64 to the row, as `fingerprints.project`."""
    out = carray(pointer(out_at), (2,), np.float64)
    if code == FLOAT64:
        _project(carray(pointer(address), (size,), np.float64), out)
    else:
        _project(carray(pointer(address), (size,), np.float32), out)
