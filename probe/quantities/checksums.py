"""Checksums of whole inputs, by which equal batches are known."""

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..kernels import FLOAT64, MORE, STATISTICS, measure_more

_CHECKSUM: Final = 1 << list(MORE).index("checksum")
#: Checksums are kept as float64, which is exact up to here.
RANGE: Final = 1 << 53
#: Makes the same tensor in another place count for something else.
PLACES: Final = (1, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)


def checksum_of(array: NDArray[Any]) -> int:
    """A number below 2^53 of the array's values, in whatever order its words of eight bytes lie, and of its size.

    Args:
        array: Without gaps, in the order of C.
    """
    return checksum_at(array.ctypes.data, array.nbytes)


def checksum_at(address: int, size_bytes: int) -> int:
    """The same of so many bytes that lie there."""
    row = np.empty(len(STATISTICS) + 1)
    measure_more(address, size_bytes // 8, FLOAT64, row.ctypes.data, len(STATISTICS), _CHECKSUM)
    return checksum_from(int(row[-1]), address, size_bytes)


def checksum_from(mixed: int, address: int, size_bytes: int) -> int:
    """The same where the whole words of eight bytes are mixed already."""
    rest = size_bytes % 8
    tail = int.from_bytes(ctypes.string_at(address + size_bytes - rest, rest), "little") if rest else 0
    return (mixed + tail * PLACES[1] + size_bytes) % RANGE
