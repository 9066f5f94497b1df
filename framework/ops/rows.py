"""Rows of a table by index, and values added to the rows they name."""

from math import prod

import numpy as np

from .. import kernels
from ..dtype import float32, float64
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor, method
from .operands import as_tensor

_gather: Primitive = Primitive(
    "gather",
    lambda table, indices: table[indices],
    lambda table, indices: Spec(indices.shape + table.shape[1:], table.dtype),
    (lambda g, _, table, indices: _scatter_add(g, indices, rows=table.shape[0]), None),
)


def _add_rows(g: Array, indices: Array, *, rows: int) -> Array:
    row = g.shape[indices.ndim :]
    if indices.size and indices.min() < 0:
        indices = np.where(indices < 0, indices + rows, indices)  # counted from the end
    values = np.ascontiguousarray(g).reshape(indices.size, prod(row))
    result = np.zeros((rows, values.shape[1]), g.dtype)
    if g.dtype not in (float32, float64):
        np.add.at(result, indices.reshape(-1), values)
    else:
        wrong = kernels.scatter.add_rows(values, np.ascontiguousarray(indices).reshape(-1), result)
        if wrong >= 0:
            raise ShapeError(f"index {indices.reshape(-1)[wrong]} does not exist in a table of {rows} rows")
    return result.reshape(rows, *row)


_scatter_add: Primitive = Primitive(
    "scatter_add",
    _add_rows,
    lambda g, indices, *, rows: Spec((rows, *g.shape[indices.ndim :]), g.dtype),
    (lambda gg, _, g, indices, *, rows: _gather(gg, indices), None),
)


@method
def gather(table: Tensor, indices: Tensor) -> Tensor:
    """Rows of the table `(rows, *row)` at integer `indices` `(*batch)`, as `(*batch, *row)`: an embedding."""
    return _gather(table, as_tensor(indices))


def scatter_add(values: Tensor, indices: Tensor, rows: int) -> Tensor:
    """A table of `rows` rows in which each value is added to the row its index names; the transpose of `gather`."""
    return _scatter_add(values, as_tensor(indices), rows=rows)
