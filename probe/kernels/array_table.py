"""Arrays as the kernels take them: one NumPy array of any dtype and strides, or many by address, size and dtype."""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from struct import Struct
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .cpu import STATISTICS, measure, measure_many
from .more import NO_MORE, More, measure_more_many
from .raw_memory import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

_CODES = {
    np.dtype(np.float32): FLOAT32,
    np.dtype(np.float64): FLOAT64,
    np.dtype(np.float16): FLOAT16,
    np.dtype(ml_dtypes.bfloat16): BFLOAT16,
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


def readable(array: NDArray[np.generic]) -> tuple[NDArray[np.generic], int]:
    """Return the array as the kernels read it, and its code; copy only where strides or dtype require it.

    Integers and booleans become float64, which is exact up to 2^53.

    Raises:
        TypeError: The elements are not real numbers.
    """
    code = _CODES.get(array.dtype)
    if code is None:
        if array.dtype.kind not in "biuf":
            raise TypeError(f"statistics need real numbers, got dtype {array.dtype}; convert the array first")
        array, code = array.astype(np.float64), FLOAT64
    return (array if array.flags.c_contiguous else _filled(array)), code


def _filled(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the elements without gaps, in any order: a transposed array is read as it lies."""
    flipped = array.transpose(np.argsort(array.strides)[::-1]) if array.ndim else array
    return flipped if flipped.flags.c_contiguous else np.ascontiguousarray(array)


def values_at(address: int, size: int, code: int, stride: int = 1) -> NDArray[np.floating]:
    """Return every `stride`-th value of an array given by address; float32, or float64 of float64.

    Values that lie as such in memory are shown where they lie, and are the caller's to leave alone.
    """
    dtype = _DTYPES[code]
    if not size:
        return np.empty(0, dtype if code in (FLOAT32, FLOAT64) else np.float32)
    buffer = (ctypes.c_char * (int(size) * dtype.itemsize)).from_address(int(address))
    values = np.frombuffer(buffer, dtype)[::stride]
    return values if code in (FLOAT32, FLOAT64) else values.astype(np.float32)


def statistics_of(array: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return `(10,)` float64 in the order of `STATISTICS`."""
    data, code = readable(np.asarray(array))
    row = np.empty(len(STATISTICS))
    measure(data.ctypes.data, data.size, code, row.ctypes.data)
    return row


@dataclass(frozen=True, eq=False)
class Arrays:
    """Where the arrays of one quantity lie now, one row a parameter.

    A table is reused as long as nothing moves, and caches what it computes.

    Args:
        addresses: `(n,)` int64, 0 where there is none.
        sizes: `(n,)` int64, elements.
        codes: `(n,)` int64, dtype codes.
        owners: Objects that keep the memory alive and in place until the kernels have read it.
        remote: Tensors on a device, by row; their addresses are 0, their sizes and codes those of the host copy.
        bring: Where a copy of such a tensor lies on the host, and what keeps it there.
    """

    addresses: NDArray[np.int64]
    sizes: NDArray[np.int64]
    codes: NDArray[np.int64]
    owners: Sequence[object] = ()
    remote: Mapping[int, Any] = field(default_factory=dict)  # Any: tensors of frameworks that may not be there
    bring: Callable[[Any], tuple[tuple[int, int, int], object]] | None = None

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """`(n,)`, where there is an array; not to be written to."""
        is_present: NDArray[np.bool_] = self.addresses != 0
        if self.remote:
            is_present[list(self.remote)] = True
        return is_present

    @cached_property
    def is_whole(self) -> bool:
        """Whether every row has an array on the host."""
        return bool(self.addresses.all())

    @cached_property
    def moves(self) -> Struct:
        """How new addresses of the same arrays are packed into `addresses`, those of absent ones as 0."""
        return Struct(f"={self.addresses.size}q")

    def local(self) -> "Arrays":
        """Return the table with device tensors copied to the host, waiting for them; itself if none is on a device."""
        if not self.remote or self.bring is None:
            return self
        places = list(zip(self.addresses.tolist(), self.sizes.tolist(), self.codes.tolist(), strict=True))
        owners = [*self.owners]
        for row, tensor in self.remote.items():
            places[row], owner = self.bring(tensor)
            owners.append(owner)
        return table_of(places, owners)

    def statistics(self, more: More = NO_MORE) -> NDArray[np.float64]:
        """Return `(n, 10)` and the columns of `more`; rows without an array are NaN. Waits for a device."""
        return self.statistics_and_norm(more)[0]

    def statistics_and_norm(self, more: More = NO_MORE) -> tuple[NDArray[np.float64], float]:
        """Return the statistics, and the norm over all arrays: NaN or infinity where one holds one."""
        if self.remote:
            return self.local().statistics_and_norm(more)
        shape = (self.addresses.size, len(STATISTICS) + len(more.columns))
        rows = np.empty(shape) if self.is_whole else np.full(shape, np.nan)
        norm = measure_many(self.addresses, self.sizes, self.codes, rows)
        return (self.add(more, rows, len(STATISTICS)) if more.flags else rows), norm

    def add(self, more: More, rows: NDArray[np.float64], column: int) -> NDArray[np.float64]:
        """Fill the columns of `more` from this column on, in rows whose first ten columns are measured."""
        if more.flags and self.remote:
            return self.local().add(more, rows, column)
        if more.flags:
            measure_more_many(self.addresses, self.sizes, self.codes, rows, column, more.flags)
        return rows


def together(tables: Iterable[Arrays]) -> Arrays:
    """Concatenate tables; none may lie on a device, and the callers keep their owners."""
    columns = zip(*((table.addresses, table.sizes, table.codes) for table in tables), strict=True)
    addresses, sizes, codes = map(np.concatenate, columns)
    return Arrays(addresses, sizes, codes)


def table_of(places: Sequence[tuple[int, int, int]], owners: Sequence[object] = ()) -> Arrays:
    """Return the table of (address, size, code) triples."""
    columns = np.array(places, np.int64).reshape(-1, 3).T.copy()
    return Arrays(columns[0], columns[1], columns[2], owners)
