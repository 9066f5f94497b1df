"""Rows added into a table by index."""

from numba import njit

from ..tensor import Array
from .exponential import JIT


@njit(**JIT)
def add_rows(values: Array, indices: Array, out: Array) -> int:
    """Add `values[i]` to `out[indices[i]]`; return the first position of an impossible index, or -1."""
    count, width = values.shape
    rows = len(out)
    for i in range(count):
        row = indices[i]
        if row < 0:
            row += rows
        if row < 0 or row >= rows:
            return i
        for j in range(width):
            out[row, j] += values[i, j]
    return -1
