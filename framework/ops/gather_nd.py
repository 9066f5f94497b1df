"""Places given by several coordinates at once: elements and slices taken from them and written to them."""

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..shape import Shape
from ..tensor import Tensor, method, wrap
from .arithmetic import add, multiply
from .choose import where
from .compare import less
from .operands import as_tensor
from .reduce import broadcast_to
from .scatter_elements import Reduction, scatter_elements


def _linear(indices: Tensor, lengths: Shape) -> Tensor:
    """The flat places in a tensor of these lengths of the coordinates `(..., len(lengths))`."""
    total: Any = 0
    for i, length in enumerate(lengths):
        coordinate = indices[..., i]
        total = add(multiply(total, length), where(less(coordinate, 0), add(coordinate, length), coordinate))
    flat: Tensor = total
    return flat


@method
def gather_nd(x: Tensor, indices: Tensor, batch_axes: int = 0) -> Tensor:
    """Elements, or slices, of `x` at coordinates.

    Args:
        x: `(*batch, *shape)`.
        indices: `(*batch, *places, k)`: coordinates along the first `k` axes after the batch.
        batch_axes: How many axes both share.

    Returns:
        `(*batch, *places, *the rest of shape)`.
    """
    x, indices = as_tensor(x), as_tensor(indices)
    if not indices.ndim or indices.shape[-1] + batch_axes > x.ndim:
        raise ShapeError(f"gather_nd of {x.shape} cannot take coordinates {indices.shape}: the last axis is too long")
    extra = indices.ndim - 1 - batch_axes
    batch = tuple(
        wrap(np.arange(n).reshape(-1, *(1,) * (batch_axes - 1 - i + extra))) for i, n in enumerate(x.shape[:batch_axes])
    )
    return x[(*batch, *(indices[..., i] for i in range(indices.shape[-1])))]


@method
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: Reduction = "none") -> Tensor:
    """`x` with updates put in (added, multiplied, ...) at coordinates.

    Args:
        x: `(*shape)`.
        indices: `(*places, k)`: coordinates along the first `k` axes.
        updates: `(*places, *shape[k:])`.
        reduction: As of `scatter_elements`.
    """
    x, indices, updates = as_tensor(x), as_tensor(indices), as_tensor(updates)
    depth = indices.shape[-1]
    if updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise ShapeError(
            f"scatter_nd of {x.shape} at {indices.shape} expects updates "
            f"{(*indices.shape[:-1], *x.shape[depth:])}, got {updates.shape}"
        )
    rows = _flat_rows(x, depth)
    values = updates.reshape(-1, rows.shape[1])
    places = broadcast_to(_linear(indices, x.shape[:depth]).reshape(-1, 1), values.shape)
    return scatter_elements(rows, places, values, 0, reduction).reshape(x.shape)


def _flat_rows(x: Tensor, depth: int) -> Tensor:
    """The first `depth` axes joined to one, and the others to another."""
    count, width = 1, 1
    for i, length in enumerate(x.shape):
        count, width = (count * length, width) if i < depth else (count, width * length)
    return x.reshape(count, width)
