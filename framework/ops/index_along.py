"""Whole slices along an axis by index: taken, added, written, filled; an embedding is one of them."""

from ..shape import normalize_axis
from ..tensor import Tensor, method
from .arithmetic import add
from .array import stop_gradient
from .choose import where
from .compare import equal, less
from .create import full
from .operands import as_tensor
from .reduce import broadcast_to
from .rows import gather
from .scatter_elements import scatter_elements


@method
def take(x: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """The slices of `x` at `indices` along `axis` (of the flat tensor for None), in the place of that axis."""
    x = as_tensor(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x[(*(slice(None),) * normalize_axis(axis, x.ndim), as_tensor(indices))]


@method
def index_select(x: Tensor, axis: int, indices: Tensor) -> Tensor:
    """The slices of `x` at the one-dimensional `indices` along `axis`."""
    return take(x, indices, axis)


def _aligned(x: Tensor, axis: int, indices: Tensor, updates: Tensor) -> Tensor:
    """Indices of slices as indices of elements, of the shape of the updates."""
    place = normalize_axis(axis, x.ndim)
    return broadcast_to(as_tensor(indices).reshape(-1, *(1,) * (x.ndim - place - 1)), updates.shape)


@method
def index_add(x: Tensor, axis: int, indices: Tensor, updates: Tensor) -> Tensor:
    """`x` with the slices of `updates` added at the one-dimensional `indices` along `axis`."""
    return scatter_elements(x, _aligned(x, axis, indices, updates), updates, axis, "add")


@method
def index_put(x: Tensor, axis: int, indices: Tensor, updates: Tensor) -> Tensor:
    """`x` with the slices of `updates` in the place of those at the one-dimensional `indices` along `axis`."""
    return scatter_elements(x, _aligned(x, axis, indices, updates), updates, axis)


@method
def index_fill(x: Tensor, axis: int, indices: Tensor, value: float) -> Tensor:
    """`x` with one value in the slices at the one-dimensional `indices` along `axis`."""
    place, indices = normalize_axis(axis, x.ndim), as_tensor(indices)
    shape = (*x.shape[:place], indices.shape[0], *x.shape[place + 1 :])
    return index_put(x, axis, indices, full(shape, value, x.dtype))


def embedding(indices: Tensor, table: Tensor, padding_index: int | None = None) -> Tensor:
    """Rows of the table at integer indices.

    Args:
        indices: `(*batch)`; negative ones count from the end.
        table: `(rows, features)`.
        padding_index: A row that gets no gradient: what stands for nothing.

    Returns:
        `(*batch, features)`.
    """
    indices = as_tensor(indices)
    rows = gather(table, indices)
    if padding_index is None:
        return rows
    count = table.shape[0]
    wanted = padding_index + count if padding_index < 0 else padding_index
    is_padding = equal(where(less(indices, 0), add(indices, count), indices), wanted)
    return where(is_padding.reshape(*indices.shape, 1), stop_gradient(rows), rows)
