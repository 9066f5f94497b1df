"""Random masks from a counter: an element's fate is a hash of its number and the key, so nothing has to be stored.

The hash is the 32-bit finalizer with the lowest known bias of its size, applied twice, each time with another key word.

Reference:
    C. Wellons, "Prospecting for hash functions", 2018 (`lowbias32`).
"""

from typing import Any

from numba import njit, uint32

from ..tensor import Array
from .exponential import JIT


@njit(inline="always")
def _mix(h: Any) -> Any:  # an unsigned number of 32 bits, which Python has no name for
    h = uint32(h ^ (h >> uint32(16)))
    h = uint32(h * uint32(0x7FEB352D))
    h = uint32(h ^ (h >> uint32(15)))
    h = uint32(h * uint32(0x846CA68B))
    return uint32(h ^ (h >> uint32(16)))


@njit(**JIT)
def dropout(x: Array, out: Array, first: int, second: int, threshold: int, scale: float) -> None:
    """`out = scale x`, 0 where the element's random number of 32 bits is below `threshold`."""
    factor = x.dtype.type(scale)
    zero = x.dtype.type(0.0)
    low = uint32(first)
    high = uint32(second)
    limit = uint32(threshold)
    for i in range(x.size):
        h = _mix(uint32(_mix(uint32(uint32(i) ^ low)) ^ high))
        out[i] = zero if h < limit else factor * x[i]
