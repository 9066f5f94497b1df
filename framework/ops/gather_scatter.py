"""Elements and slices read by index (gather) and written by index (scatter), over one axis or several."""

from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np

from .. import kernels
from ..dtype import float32, float64
from ..errors import DtypeError, ShapeError
from ..primitive import Primitive
from ..specs import Shape, Spec, broadcast_shapes, normalize_axis
from ..tensor import Array, Tensor, TensorLike, method, wrap
from .arithmetic_ops import add, divide, multiply
from .create import full
from .layout import stop_gradient
from .logic_ops import equal, less, where
from .operands import as_tensor, cast_to, conjugate, pair
from .reduce import broadcast_to

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
    """Return rows of the table `(rows, *row)` at integer `indices` `(*batch)`, as `(*batch, *row)`: an embedding."""
    return _gather(table, as_tensor(indices))


def scatter_add(values: Tensor, indices: Tensor, rows: int) -> Tensor:
    """Return a table of `rows` rows in which each value is added to the row its index names; the transpose of
    `gather`."""
    return _scatter_add(values, as_tensor(indices), rows=rows)


def places_along(indices: Array, axis: int, length: int) -> tuple[Array, ...]:
    """Return for each element of `indices` its own place, with the index in the place of `axis`."""
    if indices.size and (indices.min() < -length or indices.max() >= length):
        wrong = indices[(indices < -length) | (indices >= length)].flat[0]
        raise ShapeError(f"index {wrong} does not exist along axis {axis} of length {length}")
    grid = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = indices
    return tuple(grid)


def check_indices(x: Spec | Array, indices: Spec | Array, axis: int) -> None:
    """Refuse indices that do not fit the tensor."""
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"indices must be integers, got {indices.dtype}")
    if len(x.shape) != len(indices.shape):
        raise ShapeError(f"indices {indices.shape} expect as many axes as the tensor of shape {x.shape}")
    for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != axis and b > a:
            raise ShapeError(f"indices {indices.shape} are longer than {x.shape} along axis {i}")


def _infer_gather(x: Spec, indices: Spec, *, axis: int) -> Spec:
    check_indices(x, indices, axis)
    return Spec(indices.shape, x.dtype)


def _gather_of(x: Array, indices: Array, *, axis: int) -> Array:
    check_indices(x, indices, axis)
    picked: Array = x[places_along(indices, axis, x.shape[axis])]
    return picked


def _put_of(g: Array, indices: Array, *, axis: int, shape: Shape) -> Array:
    result = np.zeros(shape, g.dtype)
    np.add.at(result, places_along(indices, axis, shape[axis]), g)
    return result


gather_primitive: Primitive = Primitive(
    "gather_elements",
    _gather_of,
    _infer_gather,
    (lambda g, _, x, indices, *, axis: put_primitive(g, indices, axis=axis, shape=x.shape), None),
)


put_primitive: Primitive = Primitive(
    "put_elements",
    _put_of,
    lambda g, indices, *, axis, shape: Spec(tuple(shape), g.dtype),
    (lambda gg, _, g, indices, *, axis, shape: gather_primitive(gg, indices, axis=axis), None),
)


@method
def gather_elements(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """Gather for each place the element of `x` at that place, but at its own index along `axis`.

    Args:
        x: `(*shape)`.
        indices: Integers of as many axes, none longer than that of `x` except `axis`; negative ones count from the end.
        axis: Along which.

    Returns:
        Of the shape of the indices.
    """
    x = as_tensor(x)
    return gather_primitive(x, as_tensor(indices), axis=normalize_axis(axis, x.ndim))


@method
def take_along_axis(x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    """Return `gather_elements` with indices and tensor broadcast against each other outside of `axis`, as NumPy has
    it."""
    x, indices = as_tensor(x), as_tensor(indices)
    place = normalize_axis(axis, x.ndim)
    rest = broadcast_shapes(_without(x.shape, place), _without(indices.shape, place))
    x = broadcast_to(x, (*rest[:place], x.shape[place], *rest[place + 1 :]))
    indices = broadcast_to(indices, (*rest[:place], indices.shape[place], *rest[place + 1 :]))
    return gather_primitive(x, indices, axis=place)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def put_elements(values: Tensor, indices: Tensor, axis: int, shape: Shape) -> Tensor:
    """Return zeros of that shape, to which each value is added at its index along `axis`; the transpose of
    gathering."""
    return put_primitive(values, indices, axis=normalize_axis(axis, len(shape)), shape=tuple(shape))


Reduction: TypeAlias = Literal["none", "add", "mul", "max", "min"]
_UPDATES: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter_of(x: Array, indices: Array, updates: Array, *, axis: int, reduction: Reduction) -> Array:
    _check_updates(x, indices, updates, axis)
    result = x.copy()
    places = places_along(indices, axis, x.shape[axis])
    if reduction == "none":
        result[places] = updates
    else:
        _UPDATES[reduction].at(result, places, updates)
    return result


def _check_updates(x: Spec | Array, indices: Spec | Array, updates: Spec | Array, axis: int) -> None:
    check_indices(x, indices, axis)
    if updates.shape != indices.shape:
        raise ShapeError(f"updates expect the shape of the indices {indices.shape}, got {updates.shape}")


def _infer_scatter(x: Spec, indices: Spec, updates: Spec, *, axis: int, reduction: Reduction) -> Spec:
    _check_updates(x, indices, updates, axis)
    return x


def _of_base(
    g: Tensor, out: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: Reduction
) -> Tensor:
    if reduction == "add":
        return g
    if reduction == "none":
        return _scatter(g, indices, _constant(updates, 0.0), axis=axis, reduction="none")
    if reduction == "mul":
        ones = _constant(x, 1.0)
        return multiply(g, conjugate(_scatter(ones, indices, updates, axis=axis, reduction="mul")))
    return where(equal(x, out), _shared(g, out, x, indices, updates, axis), 0.0)


def _of_updates(
    g: Tensor, out: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: Reduction
) -> Tensor:
    if reduction in ("add", "none"):
        return gather_primitive(g, indices, axis=axis)
    if reduction == "mul":
        alone = gather_primitive(multiply(g, conjugate(x)), indices, axis=axis)  # right where no index comes twice
        nothing = equal(updates, 0.0)
        whole = gather_primitive(multiply(g, conjugate(out)), indices, axis=axis)
        return where(nothing, alone, divide(whole, conjugate(where(nothing, 1.0, updates))))
    shared = gather_primitive(_shared(g, out, x, indices, updates, axis), indices, axis=axis)
    return where(equal(updates, gather_primitive(out, indices, axis=axis)), shared, 0.0)


def _shared(g: Tensor, out: Tensor, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Return the gradient of an extreme, divided among those that are equal to it."""
    hits = cast_to(equal(updates, gather_primitive(out, indices, axis=axis)), g.dtype)
    count = add(cast_to(equal(x, out), g.dtype), put_primitive(hits, indices, axis=axis, shape=x.shape))
    return divide(g, count)


def _constant(like: Tensor, value: float) -> Tensor:
    return full(like.shape, value, like.dtype)


_scatter: Primitive = Primitive(
    "scatter_elements", _scatter_of, _infer_scatter, (_of_base, None, _of_updates), saves_output=True
)


@method
def scatter_elements(
    x: Tensor, indices: Tensor, updates: TensorLike, axis: int = 0, reduction: Reduction = "none"
) -> Tensor:
    """Return `x` with updates put in (added, multiplied, ...) where `gather_elements` with the same indices would look.

    Args:
        x: `(*shape)`.
        indices: Integers of as many axes, none longer than that of `x` except `axis`; negative ones count from the end.
        updates: Of the shape of the indices, or a number.
        axis: Along which.
        reduction: "none" replaces (of equal indices one wins), "add", "mul", "max", "min" combine.

    Returns:
        Of the shape of `x`. Equal extremes share the gradient.
    """
    if reduction != "none" and reduction not in _UPDATES:
        raise ValueError(f"no reduction {reduction!r}; use 'none', 'add', 'mul', 'max' or 'min'")
    x, indices = as_tensor(x), as_tensor(indices)
    if not isinstance(updates, Tensor):
        updates = full(indices.shape, updates, x.dtype)
    x, updates = pair(x, updates)
    how: dict[str, object] = {"axis": normalize_axis(axis, x.ndim), "reduction": reduction}
    return _scatter(x, indices, updates, **how)


def _linear(indices: Tensor, lengths: Shape) -> Tensor:
    """Return the flat places in a tensor of these lengths of the coordinates `(..., len(lengths))`."""
    total: Any = 0
    for i, length in enumerate(lengths):
        coordinate = indices[..., i]
        total = add(multiply(total, length), where(less(coordinate, 0), add(coordinate, length), coordinate))
    flat: Tensor = total
    return flat


@method
def gather_nd(x: Tensor, indices: Tensor, batch_axes: int = 0) -> Tensor:
    """Return elements, or slices, of `x` at coordinates.

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
    """Return `x` with updates put in (added, multiplied, ...) at coordinates.

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
    """Return the first `depth` axes joined to one, and the others to another."""
    count, width = 1, 1
    for i, length in enumerate(x.shape):
        count, width = (count * length, width) if i < depth else (count, width * length)
    return x.reshape(count, width)


@method
def take(x: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """Return the slices of `x` at `indices` along `axis` (of the flat tensor for None), in the place of that axis."""
    x = as_tensor(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x[(*(slice(None),) * normalize_axis(axis, x.ndim), as_tensor(indices))]


@method
def index_select(x: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Return the slices of `x` at the one-dimensional `indices` along `axis`."""
    return take(x, indices, axis)


def _aligned(x: Tensor, axis: int, indices: Tensor, updates: Tensor) -> Tensor:
    """Return indices of slices as indices of elements, of the shape of the updates."""
    place = normalize_axis(axis, x.ndim)
    return broadcast_to(as_tensor(indices).reshape(-1, *(1,) * (x.ndim - place - 1)), updates.shape)


@method
def index_add(x: Tensor, axis: int, indices: Tensor, updates: Tensor) -> Tensor:
    """Return `x` with the slices of `updates` added at the one-dimensional `indices` along `axis`."""
    return scatter_elements(x, _aligned(x, axis, indices, updates), updates, axis, "add")


@method
def index_put(x: Tensor, axis: int, indices: Tensor, updates: Tensor) -> Tensor:
    """Return `x` with the slices of `updates` in the place of those at the one-dimensional `indices` along `axis`."""
    return scatter_elements(x, _aligned(x, axis, indices, updates), updates, axis)


@method
def index_fill(x: Tensor, axis: int, indices: Tensor, value: float) -> Tensor:
    """Return `x` with one value in the slices at the one-dimensional `indices` along `axis`."""
    place, indices = normalize_axis(axis, x.ndim), as_tensor(indices)
    shape = (*x.shape[:place], indices.shape[0], *x.shape[place + 1 :])
    return index_put(x, axis, indices, full(shape, value, x.dtype))


def embedding(indices: Tensor, table: Tensor, padding_index: int | None = None) -> Tensor:
    """Return rows of the table at integer indices.

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
