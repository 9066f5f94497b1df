"""How arrays are compared: bit for bit with a copy, by checksums, and by random projections.

Reference:
    Freivalds 1977, Probabilistic machines can use less running time (a product checked by random projections).
"""

import ctypes
from typing import Final

import numpy as np
from numba import carray, njit
from numpy.typing import NDArray

from .cpu import STATISTICS
from .more import FLAGS, measure_more
from .raw_memory import CHUNK, FLOAT32, FLOAT64, Ints, pointer

__all__ = ["PLACES", "PROJECTIONS", "RANGE", "are_same", "checksum_at", "checksum_from", "checksum_of", "project"]

_Words = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]


@njit(nogil=True, cache=True)
def _is_same(now: _Words, copy: _Words) -> bool:
    for start in range(0, now.size, CHUNK):
        bits, copied = now[start : start + CHUNK], copy[start : start + CHUNK]
        differs = False
        for i in range(bits.size):
            differs |= bits[i] != copied[i]
        if differs:
            return False
    return True


@njit(nogil=True, cache=True)
def are_same(addresses: Ints, sizes: Ints, codes: Ints, copies: Ints) -> bool:
    """Return whether every array has the bits of its copy; arrays with address 0 are left out.

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


#: Projections of an array.
PROJECTIONS: Final = 2
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_TOP: Final = np.uint64(63)
_ONE: Final = np.uint64(1)


@njit(nogil=True, cache=True)
def project(values: NDArray[np.float32] | NDArray[np.float64], out: NDArray[np.float64]) -> None:
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


_CHECKSUM: Final = FLAGS["checksum"]
#: Checksums are stored as float64, which is exact below this number.
RANGE: Final = 1 << 53
#: Factors that make the same tensor at another position give another checksum.
PLACES: Final = (1, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)


def checksum_of(array: NDArray[np.generic]) -> int:
    """Return a number below 2^53 of the array's size and values, in whatever order its eight-byte words lie.

    Args:
        array: Without gaps, in the order of C.
    """
    return checksum_at(array.ctypes.data, array.nbytes)


def checksum_at(address: int, size_bytes: int) -> int:
    """Return the checksum of this many bytes at the address."""
    row = np.empty(len(STATISTICS) + 1)
    measure_more(address, size_bytes // 8, FLOAT64, row.ctypes.data, len(STATISTICS), _CHECKSUM)
    return checksum_from(int(row[-1]), address, size_bytes)


def checksum_from(mixed: int, address: int, size_bytes: int) -> int:
    """Return the checksum where the whole eight-byte words are mixed already."""
    rest = size_bytes % 8
    tail = int.from_bytes(ctypes.string_at(address + size_bytes - rest, rest), "little") if rest else 0
    return (mixed + tail * PLACES[1] + size_bytes) % RANGE
