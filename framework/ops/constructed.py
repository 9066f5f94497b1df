"""Tensors made of a rule, and the diagonals and triangles of those that are there."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..dtype import as_dtype
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..specs import Shape, Spec, normalize_axis
from ..tensor import Array, Tensor, TensorLike, method, wrap
from .create import full
from .indexing_ops import getitem, pad
from .layout import reshape
from .logic_ops import where
from .operands import as_tensor, cast_to
from .reduce import broadcast_to, sum


def eye(rows: int, columns: int | None = None, offset: int = 0, dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return ones on the diagonal, moved to the right by `offset`, and zeros."""
    return wrap(np.eye(rows, columns, offset, as_dtype(dtype)))


def linspace(start: float, end: float, count: int, dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return numbers at equal distances from `start` to `end`, both included."""
    return wrap(np.linspace(start, end, count).astype(as_dtype(dtype)))


def logspace(start: float, end: float, count: int, base: float = 10.0, dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return powers of the base with exponents at equal distances from `start` to `end`, both included."""
    return wrap(np.logspace(start, end, count, base=base).astype(as_dtype(dtype)))


def full_like(x: Tensor, value: float, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Return one value in the shape of `x`."""
    return full(x.shape, value, x.dtype if dtype is None else dtype)


def empty(shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return a tensor whose values are not set (they are zeros here: what is never read costs nothing)."""
    return full(shape, 0, dtype)


def meshgrid(*rows: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid: each row along an axis of its own, repeated along the others.

    Args:
        rows: One-dimensional tensors.
        indexing: "ij" in order of the rows; "xy" with the first two axes exchanged.
    """
    if indexing not in ("ij", "xy"):
        raise ValueError(f"no indexing {indexing!r}; use 'ij' or 'xy'")
    order = list(range(len(rows)))
    if indexing == "xy" and len(rows) > 1:
        order[:2] = [1, 0]
    lengths = [row.shape[0] for row in rows]
    shape = tuple(lengths[order.index(place)] for place in range(len(rows)))
    grids = []
    for row, place in zip(rows, order, strict=True):
        own = tuple(row.shape[0] if axis == place else 1 for axis in range(len(rows)))
        grids.append(broadcast_to(reshape(row, own), shape))
    return tuple(grids)


def _triangle(x: Tensor, offset: int) -> Tensor:
    return wrap(np.tri(x.shape[-2], x.shape[-1], offset, bool))


@method
def tril(x: Tensor, offset: int = 0) -> Tensor:
    """Return the last two axes' lower triangle, up to the diagonal moved right by `offset`; zeros above."""
    return where(_triangle(x, offset), x, 0)


@method
def triu(x: Tensor, offset: int = 0) -> Tensor:
    """Return the last two axes' upper triangle, from the diagonal moved right by `offset`; zeros below."""
    return where(_triangle(x, offset - 1), 0, x)


@method
def diagonal(x: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    """Return the diagonal of two axes, moved right by `offset`, as the last axis."""
    i, j = normalize_axis(first, x.ndim), normalize_axis(second, x.ndim)
    if i == j:
        raise ShapeError(f"diagonal expects two axes, got {first} and {second} of {x.ndim}")
    rest = [axis for axis in range(x.ndim) if axis not in (i, j)]
    turned = x.transpose(*rest, i, j)
    rows, columns = turned.shape[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    places = np.arange(count)
    return getitem(turned, (Ellipsis, wrap(places - min(offset, 0)), wrap(places + max(offset, 0))))


@method
def diag_embed(x: Tensor, offset: int = 0) -> Tensor:
    """Return matrices with the last axis of `x` on their diagonal, moved right by `offset`."""
    n = x.shape[-1]
    size = n + max(offset, -offset)
    rows = reshape(x, (*x.shape, 1)) * eye(n, dtype=x.dtype)
    before = (max(0, -offset), max(0, offset))
    return pad(rows, [(0, 0)] * (x.ndim - 1) + [(b, size - n - b) for b in before])


@method
def diag(x: Tensor, offset: int = 0) -> Tensor:
    """Return the diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if x.ndim == 1:
        return diag_embed(x, offset)
    if x.ndim == 2:
        return diagonal(x, offset)
    raise ShapeError(f"diag expects one axis or two, got shape {x.shape}; see diagonal and diag_embed")


@method
def trace(x: Tensor, offset: int = 0) -> Tensor:
    """Return the sum of the diagonal of the first two axes."""
    return sum(diagonal(x, offset), -1)


def _one_hot_of(x: Array, *, depth: int, axis: int) -> Array:
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    counter = np.arange(depth).reshape(depth, *(1,) * (x.ndim - axis))
    places = np.where(x < 0, x + depth, x) if x.dtype.kind == "i" else x
    return np.equal(places.reshape(shape), counter)


def _infer_one_hot(x: Spec, *, depth: int, axis: int) -> Spec:
    shape: Shape = (*x.shape[:axis], depth, *x.shape[axis:])
    return Spec(shape, np.dtype(np.bool_))


_one_hot: Primitive = Primitive("one_hot", _one_hot_of, _infer_one_hot, NOT_DIFFERENTIABLE)


@method
def one_hot(
    x: Tensor,
    depth: int,
    on: TensorLike = 1.0,
    off: TensorLike = 0.0,
    axis: int = -1,
    dtype: npt.DTypeLike = "float32",
) -> Tensor:
    """Return rows of `off` with `on` at the index.

    Args:
        x: Integers `(*shape)`; negative ones count from the end, those out of range give a row of `off`.
        depth: Length of a row.
        on: Value at the index.
        off: Value elsewhere.
        axis: Where the row lies in the result.
        dtype: Of the result.
    """
    x = as_tensor(x)
    hot = _one_hot(x, depth=int(depth), axis=normalize_axis(axis, x.ndim + 1))
    kind = as_dtype(dtype)
    if not isinstance(on, Tensor) and not isinstance(off, Tensor) and (on, off) == (1, 0):
        return cast_to(hot, kind)
    return where(hot, cast_to(as_tensor(on), kind), cast_to(as_tensor(off), kind))
