"""How arrays are compared: bit for bit with a copy, by checksums, and by random projections.

Reference:
    Freivalds 1977, Probabilistic machines can use less running time (a product checked by random projections).
"""

import ctypes
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .cpu import STATISTICS
from .machine_code import Kernel
from .more import FLAGS, measure_more
from .raw_memory import FLOAT32, FLOAT64, Ints

__all__ = ["PLACES", "PROJECTIONS", "RANGE", "are_same", "checksum_at", "checksum_from", "checksum_of", "project"]

_are_same: Final = Kernel("comparison", "are_same", "q", "qqqqq")
_project: Final = Kernel("comparison", "project", "v", "qqqq")


def are_same(addresses: Ints, sizes: Ints, codes: Ints, copies: Ints) -> bool:
    """Return whether every array has the bits of its copy; arrays with address 0 are left out.

    Args:
        addresses, sizes, codes: `(n,)` int64.
        copies: `(n,)` int64, addresses of as many elements of the same dtypes.
    """
    columns = (column.ctypes.data for column in (addresses, sizes, codes, copies))
    return bool(_are_same(addresses.size, *columns))


#: Projections of an array.
PROJECTIONS: Final = 2


def project(values: NDArray[np.float32] | NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Add to `out`, `(2,)`, the sum of the values and the sum under signs that depend on the position only."""
    filled = np.ascontiguousarray(values)
    code = FLOAT64 if filled.dtype == np.float64 else FLOAT32
    _project(filled.ctypes.data, filled.size, code, out.ctypes.data)


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
