"""Copies of arrays in one piece of memory, which goes back to the system as soon as nobody needs them."""

import ctypes
import mmap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Copies begin at cache lines.
_LINE: Final = 64
#: Bytes from which the memory is a mapping of its own. The C library keeps what is freed of its heap. Our choice.
_MAPPED: Final = 1 << 20


class CopiedArrays:
    """Room for copies of arrays of these many bytes.

    Attributes:
        addresses: `(n,)` int64, where the copies lie.
        nbytes: Of all of them.
    """

    def __init__(self, sizes: Sequence[int] = ()) -> None:
        ends = [*accumulate(-(-size // _LINE) * _LINE for size in sizes)]
        self._sizes, self.nbytes = sizes, ends[-1] if ends else 0
        self._memory = _memory(self.nbytes)
        begins = np.array([0, *ends[:-1]][: len(sizes)], np.int64)
        self.addresses: NDArray[np.int64] = begins + self._memory.ctypes.data

    def take(self, rows: Iterable[int], addresses: NDArray[np.int64]) -> None:
        """Copy the arrays of these rows from their addresses; leave out those without one."""
        for row in rows:
            if address := int(addresses[row]):
                ctypes.memmove(int(self.addresses[row]), address, self._sizes[row])


def _memory(size: int) -> NDArray[np.uint8]:
    """Return so many bytes; large pages spare most of the time of touching them for the first time."""
    if size < _MAPPED or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(size, np.uint8)
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, np.uint8)
