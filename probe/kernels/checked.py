"""Statistics of an array and the checksum of its bytes, in one pass over memory that no cache holds yet.

What is compiled of this file has functions of `chunks.py` and `more.py` inside: after a change there, touch it.
"""

import numpy as np
from numba import carray, njit

from .chunks import add_chunk, clear
from .cpu import finish
from .memory import CHUNK, pointer
from .more import DROPPED, mixed_bits


@njit(nogil=True, cache=True)
def measure_checked(address: int, size: int, out_address: int) -> int:
    """The 53-bit mix of the array's words of eight bytes; the row at `out_address` has its ten statistics.

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
