"""Statistics of a NumPy array of any dtype, shape and strides, by the same kernels."""

import ctypes

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .cpu import STATISTICS, measure
from .memory import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

_CODES = {
    np.dtype(np.float32): FLOAT32,
    np.dtype(np.float64): FLOAT64,
    np.dtype(np.float16): FLOAT16,
    np.dtype(ml_dtypes.bfloat16): BFLOAT16,
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


def readable(array: NDArray[np.generic]) -> tuple[NDArray[np.generic], int]:
    """The array as the kernels can read it, and its code; a copy only where strides or dtype ask for one.

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
    """The elements without gaps, in any order: a transposed array is read as it lies."""
    flipped = array.transpose(np.argsort(array.strides)[::-1]) if array.ndim else array
    return flipped if flipped.flags.c_contiguous else np.ascontiguousarray(array)


def values_at(address: int, size: int, code: int, stride: int = 1) -> NDArray[np.floating]:
    """Every `stride`-th value of an array given by its place, from the first on; float32, or float64 of float64.

    Values that lie as such in memory are shown where they lie, and are the caller's to leave alone.
    """
    dtype = _DTYPES[code]
    if not size:
        return np.empty(0, dtype if code in (FLOAT32, FLOAT64) else np.float32)
    held = (ctypes.c_char * (int(size) * dtype.itemsize)).from_address(int(address))
    values = np.frombuffer(held, dtype)[::stride]
    return values if code in (FLOAT32, FLOAT64) else values.astype(np.float32)


def statistics_of(array: NDArray[np.generic]) -> NDArray[np.float64]:
    """`(10,)` float64 in the order of `STATISTICS`."""
    data, code = readable(np.asarray(array))
    row = np.empty(len(STATISTICS))
    measure(data.ctypes.data, data.size, code, row.ctypes.data)
    return row
