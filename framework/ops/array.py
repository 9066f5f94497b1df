"""Shape and place: operations that move elements and leave their values alone."""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import kernels
from ..context import CAPTURE
from ..dtype import as_dtype, bool_, float32, float64, promote
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Axes, Shape, Spec, broadcast_shapes, normalize_axes, normalize_axis, reshaped
from ..symbolic import is_static
from ..tensor import Array, Tensor, TensorLike, method, wrap
from .operands import as_tensor, cast_to, pair
from .reduce import broadcast_to, sum_to

_identity: Primitive = Primitive("identity", lambda x: x, lambda x: x, (lambda g, _, x: g,))
_stop_gradient: Primitive = Primitive("stop_gradient", lambda x: x, lambda x: x, NOT_DIFFERENTIABLE)


@method
def identity(x: Tensor) -> Tensor:
    """The same values, as a new tensor of the graph."""
    return _identity(x)


@method
def stop_gradient(x: Tensor) -> Tensor:
    """The same values; no gradient flows through."""
    return _stop_gradient(as_tensor(x))


_full_like: Primitive = Primitive(
    "full_like",
    lambda x, *, value: np.full(x.shape, value, x.dtype),
    lambda x, *, value: x,
    NOT_DIFFERENTIABLE,
)


def _filled_like(x: Tensor, value: float) -> Tensor:
    """A tensor of the class of `x`; where something watches, through a primitive."""
    if x.__fallback__ is None and CAPTURE.get() is None:
        return wrap(np.full(x.shape, value, x.dtype))
    return _full_like(x, value=value)


_reshape: Primitive = Primitive(
    "reshape",
    lambda x, *, shape: x.reshape(shape),
    lambda x, *, shape: Spec(reshaped(x.shape, shape), x.dtype),
    (lambda g, _, x, *, shape: _reshape(g, shape=x.shape),),
    eager_vjp=lambda needs, g, _, x, *, shape: (g.reshape(x.shape),),
)


@method
def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The elements in another shape; one length may be -1."""
    return _reshape(x, shape=tuple(shape))


@method
def flatten(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """Axes `start` to `end`, both included, joined into one."""
    if x.ndim == 0:
        return reshape(x, (1,))
    first, last = normalize_axis(start, x.ndim), normalize_axis(end, x.ndim)
    joined = prod(x.shape[first : last + 1])
    return reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


@method
def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """The tensor with new axes of length 1, at these places of the result."""
    count = x.ndim + (1 if isinstance(axis, int) else len(axis))
    fresh = normalize_axes(axis, count)
    rest = iter(x.shape)
    return reshape(x, tuple(1 if place in fresh else next(rest) for place in range(count)))


@method
def squeeze(x: Tensor, axis: Axes = None) -> Tensor:
    """The tensor without its axes of length 1: those named, or all of them."""
    if axis is None:
        return reshape(x, tuple(length for length in x.shape if length != 1))
    gone = normalize_axes(axis, x.ndim)
    for place in gone:
        if x.shape[place] != 1:
            raise ShapeError(f"squeeze expects length 1 along axis {place}, got shape {x.shape}")
    return reshape(x, tuple(length for place, length in enumerate(x.shape) if place not in gone))


def _infer_transpose(x: Spec, *, axes: Shape) -> Spec:
    if sorted(normalize_axis(axis, x.ndim) for axis in axes) != list(range(x.ndim)):
        raise ShapeError(f"transpose of {x.shape} expects each of its {x.ndim} axes once, got {axes}")
    return Spec(tuple(x.shape[axis] for axis in axes), x.dtype)


_transpose: Primitive = Primitive(
    "transpose",
    lambda x, *, axes: x.transpose(axes),
    _infer_transpose,
    (lambda g, _, x, *, axes: _transpose(g, axes=tuple(axes.index(i) for i in range(len(axes)))),),
    eager_vjp=lambda needs, g, _, x, *, axes: (g.transpose([axes.index(i) for i in range(len(axes))]),),
)


@method
def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order, reversed by default."""
    order = range(x.ndim - 1, -1, -1) if axes is None else (axis % x.ndim for axis in axes)
    return _transpose(x, axes=tuple(order))


_swapaxes: Primitive = Primitive(
    "swapaxes",
    lambda x, *, first, second: x.swapaxes(first, second),
    lambda x, *, first, second: _infer_swap(x, first, second),
    (lambda g, _, x, *, first, second: _swapaxes(g, first=first, second=second),),
    eager_vjp=lambda needs, g, _, x, *, first, second: (g.swapaxes(first, second),),
)


def _infer_swap(x: Spec, first: int, second: int) -> Spec:
    shape = list(x.shape)
    i, j = normalize_axis(first, x.ndim), normalize_axis(second, x.ndim)
    shape[i], shape[j] = shape[j], shape[i]
    return Spec(tuple(shape), x.dtype)


@method
def swapaxes(x: Tensor, first: int, second: int) -> Tensor:
    """Two axes exchanged."""
    return _swapaxes(x, first=first, second=second)


@method
def cast(x: Tensor, dtype: npt.DTypeLike) -> Tensor:
    """The values in another element type; gradients flow back in the former."""
    return cast_to(x, as_dtype(dtype))


def _infer_where(condition: Spec, a: Spec, b: Spec) -> Spec:
    shape = broadcast_shapes(condition.shape, a.shape, b.shape)
    return Spec(shape, b.dtype if a.weak else a.dtype)


def _choose(condition: Array, a: Any, b: Any) -> Array:
    """`np.where`, in which a Python number takes the dtype of the other operand, bfloat16 too."""
    if not isinstance(a, np.ndarray):
        a = b.dtype.type(a)
    elif not isinstance(b, np.ndarray):
        b = a.dtype.type(b)
    chosen: Array = np.where(condition, a, b)
    return chosen


_where: Primitive = Primitive(
    "where",
    _choose,
    _infer_where,
    (
        None,
        lambda g, _, condition, a, b: sum_to(_where(condition, g, 0.0), a),
        lambda g, _, condition, a, b: sum_to(_where(condition, 0.0, g), b),
    ),
)


def where(condition: Tensor, a: TensorLike, b: TensorLike) -> Tensor:
    """`a` where the condition holds, else `b`."""
    a, b = pair(a, b)
    return _where(cast_to(as_tensor(condition), bool_), a, b)


@method
def masked_fill(x: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """The tensor with one value where the mask, which broadcasts, holds."""
    return where(mask, value, x)


def _infer_concat(*parts: Spec, axis: int) -> Spec:
    first, place = parts[0], normalize_axis(axis, parts[0].ndim)
    for part in parts[1:]:
        if part.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(first.shape, part.shape, strict=True)) if i != place
        ):
            raise ShapeError(f"concat along axis {axis} expects equal other axes, got {first.shape} and {part.shape}")
    total = sum(part.shape[place] for part in parts)
    return Spec((*first.shape[:place], total, *first.shape[place + 1 :]), first.dtype)


def _concat_gradient(needs: Sequence[bool], g: Tensor, _: None, *parts: Tensor, axis: int) -> list[Tensor | None]:
    cuts = _split.several(g, sizes=tuple(part.shape[axis] for part in parts), axis=axis)
    return [cut if need else None for cut, need in zip(cuts, needs, strict=True)]


_concat: Primitive = Primitive(
    "concat", lambda *parts, axis: np.concatenate(parts, axis=axis), _infer_concat, _concat_gradient
)


def concat(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after the other along `axis`."""
    if not parts:
        raise ShapeError("concat expects one tensor or more, got none")
    dtype = reduce(promote, (part.dtype for part in parts))
    return _concat(*(cast_to(part, dtype) for part in parts), axis=normalize_axis(axis, parts[0].ndim))


def stack(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors side by side along a new axis."""
    return concat([expand_dims(part, axis) for part in parts], axis)


def _cuts(sizes: Shape, axis: int) -> list[tuple[slice, ...]]:
    """The index of every part."""
    ends = list(accumulate(sizes))
    return [(*(slice(None),) * axis, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def _infer_split(x: Spec, *, sizes: Shape, axis: int) -> tuple[Spec, ...]:
    return tuple(Spec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes)


def _split_gradient(needs: object, g: Any, _: None, x: Tensor, *, sizes: Shape, axis: int) -> Any:
    given: Sequence[Tensor | None] = g if len(sizes) > 1 else (g,) if isinstance(g, Tensor) else g
    parts = [
        zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) if part is None else part
        for part, size in zip(given, sizes, strict=True)
    ]
    return (_concat(*parts, axis=axis),)


_split: Primitive = Primitive(
    "split",
    lambda x, *, sizes, axis: tuple([x[cut] for cut in _cuts(sizes, axis)]),
    _infer_split,
    _split_gradient,
)


@method
def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """The tensor cut along `axis` into parts of these lengths, or of one length (the last may be shorter)."""
    place = normalize_axis(axis, x.ndim)
    length = x.shape[place]
    if isinstance(sizes, int):
        if sizes < 1:
            raise ShapeError(f"split expects a length of 1 or more, got {sizes}")
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise ShapeError(
            f"split along axis {axis} of {x.shape} expects lengths that add up to {length}, got {tuple(sizes)}"
        )
    if len(sizes) == 1:
        return (identity(x),)  # a primitive has one output, or two and more
    return _split.several(x, sizes=tuple(sizes), axis=place)


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


@method
def halves(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The two halves along `axis`."""
    length = x.shape[normalize_axis(axis, x.ndim)]
    if length % 2:
        raise ShapeError(f"two halves along axis {axis} expect an even length, got shape {x.shape}")
    first, second = split(x, length // 2, axis)
    return first, second


def zeros(shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """A tensor of zeros."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """A tensor of ones."""
    return full(shape, 1, dtype)


@method
def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the same shape and dtype."""
    return _filled_like(x, 0)


@method
def ones_like(x: Tensor) -> Tensor:
    """Ones of the same shape and dtype."""
    return _filled_like(x, 1)


def full(shape: Sequence[int], value: complex, dtype: npt.DTypeLike = "float32") -> Tensor:
    """A tensor filled with one value; symbolic lengths are filled in when the compiled function runs."""
    kind = as_dtype(dtype)
    if is_static(shape):
        return wrap(np.full(tuple(shape), value, kind))
    return broadcast_to(wrap(np.asarray(value, kind)), shape)


def arange(*bounds: int, dtype: npt.DTypeLike = "int64") -> Tensor:
    """Numbers from a start (0) up to an end, not included, by a step (1)."""
    return wrap(np.arange(*bounds, dtype=as_dtype(dtype)))
