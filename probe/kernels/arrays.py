"""Statistics of a NumPy array of any dtype, shape and strides, by the same kernels."""

import numpy as np
from numpy.typing import NDArray

from .cpu import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, STATISTICS, measure

_CODES = {"float32": FLOAT32, "float64": FLOAT64, "float16": FLOAT16, "bfloat16": BFLOAT16}


def code_of(dtype: np.dtype[np.generic]) -> int | None:
    """The kernels' code of a dtype that they read where it lies, else None."""
    return _CODES.get(dtype.name) if dtype.isnative else None


def readable(array: NDArray[np.generic]) -> tuple[NDArray[np.generic], int]:
    """The array as the kernels can read it, and its code; a copy only where strides or dtype ask for one.

    Integers and booleans become float64, which is exact up to 2^53.

    Raises:
        TypeError: The elements are not real numbers.
    """
    code = code_of(array.dtype)
    if code is None:
        if array.dtype.kind not in "biuf":
            raise TypeError(f"statistics need real numbers, got dtype {array.dtype}; convert the array first")
        array, code = array.astype(np.float64), FLOAT64
    return np.ascontiguousarray(array), code


def statistics_of(array: NDArray[np.generic]) -> NDArray[np.float64]:
    """`(10,)` float64 in the order of `STATISTICS`."""
    data, code = readable(array)
    row = np.empty(len(STATISTICS))
    measure(data.ctypes.data, data.size, code, row.ctypes.data)
    return row
