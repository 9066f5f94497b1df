"""Shape and place: operations that move elements and leave their values alone."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import kernels
from ..dtype import as_dtype, bool_, float32, float64, promote
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Shape, Spec, broadcast_shapes, normalize_axis, reshaped
from ..tensor import Array, Tensor, TensorLike, method, wrap
from .indexing import getitem
from .operands import as_tensor, cast_to, pair
from .reduce import broadcast_to, sum_to

_identity: Primitive = Primitive("identity", lambda x: x, lambda x: x, (lambda g, _, x: g,))
_stop_gradient: Primitive = Primitive("stop_gradient", lambda x: x, lambda x: x, NOT_DIFFERENTIABLE)


def identity(x: Tensor) -> Tensor:
    """The same values, as a new tensor of the graph."""
    return _identity(x)


_reshape: Primitive = Primitive(
    "reshape",
    lambda x, *, shape: x.reshape(shape),
    lambda x, *, shape: Spec(reshaped(x.shape, shape), x.dtype),
    (lambda g, _, x, *, shape: _reshape(g, shape=x.shape),),
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
    joined = int(np.prod(x.shape[first : last + 1]))
    return reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


def expand_dims(x: Tensor, axis: int) -> Tensor:
    """The tensor with a new axis of length 1 at `axis`."""
    place = normalize_axis(axis, x.ndim + 1)
    return reshape(x, (*x.shape[:place], 1, *x.shape[place:]))


def squeeze(x: Tensor, axis: int) -> Tensor:
    """The tensor without its axis of length 1 at `axis`."""
    place = normalize_axis(axis, x.ndim)
    if x.shape[place] != 1:
        raise ShapeError(f"squeeze expects length 1 along axis {axis}, got shape {x.shape}")
    return reshape(x, x.shape[:place] + x.shape[place + 1 :])


def _infer_transpose(x: Spec, *, axes: Shape) -> Spec:
    if sorted(normalize_axis(axis, x.ndim) for axis in axes) != list(range(x.ndim)):
        raise ShapeError(f"transpose of {x.shape} expects each of its {x.ndim} axes once, got {axes}")
    return Spec(tuple(x.shape[axis] for axis in axes), x.dtype)


_transpose: Primitive = Primitive(
    "transpose",
    lambda x, *, axes: x.transpose(axes),
    _infer_transpose,
    (lambda g, _, x, *, axes: _transpose(g, axes=tuple(int(i) for i in np.argsort(axes))),),
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
    return Spec(shape, a.dtype if a.dtype == b.dtype or a.shape or not b.shape else b.dtype)


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
    ends = np.cumsum(sizes).tolist()
    return [(*(slice(None),) * axis, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def _infer_split(x: Spec, *, sizes: Shape, axis: int) -> tuple[Spec, ...]:
    return tuple(Spec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes)


def _split_gradient(needs: object, g: Sequence[Tensor | None], _: None, x: Tensor, *, sizes: Shape, axis: int) -> Any:
    parts = [
        wrap(np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)) if part is None else part
        for part, size in zip(g, sizes, strict=True)
    ]
    return (_concat(*parts, axis=axis),)


_split: Primitive = Primitive(
    "split",
    lambda x, *, sizes, axis: tuple([x[cut] for cut in _cuts(sizes, axis)]),
    _infer_split,
    _split_gradient,
)


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
    return _split.several(x, sizes=tuple(sizes), axis=place)


_gather: Primitive = Primitive(
    "gather",
    lambda table, indices: table[indices],
    lambda table, indices: Spec(indices.shape + table.shape[1:], table.dtype),
    (lambda g, _, table, indices: _scatter_add(g, indices, rows=table.shape[0]), None),
)


def _add_rows(g: Array, indices: Array, *, rows: int) -> Array:
    row = g.shape[indices.ndim :]
    values = np.ascontiguousarray(g).reshape(indices.size, int(np.prod(row, dtype=np.int64)))
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


def gather(table: Tensor, indices: Tensor) -> Tensor:
    """Rows of the table `(rows, *row)` at integer `indices` `(*batch)`, as `(*batch, *row)`: an embedding."""
    return _gather(table, as_tensor(indices))


def scatter_add(values: Tensor, indices: Tensor, rows: int) -> Tensor:
    """A table of `rows` rows in which each value is added to the row its index names; the transpose of `gather`."""
    return _scatter_add(values, as_tensor(indices), rows=rows)


def _infer_pad(x: Spec, *, widths: tuple[tuple[int, int], ...]) -> Spec:
    if len(widths) != x.ndim:
        raise ShapeError(f"pad of {x.shape} expects {x.ndim} pairs of widths, got {len(widths)}")
    return Spec(tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True)), x.dtype)


_pad: Primitive = Primitive(
    "pad",
    lambda x, *, widths: np.pad(x, widths),
    _infer_pad,
    (
        lambda g, _, x, *, widths: getitem(
            g, tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))
        ),
    ),
)


def pad(x: Tensor, widths: Sequence[tuple[int, int]]) -> Tensor:
    """The tensor with zeros before and after, one pair of widths an axis."""
    return _pad(x, widths=tuple(tuple(pair_) for pair_ in widths))


def tile(x: Tensor, repeats: Sequence[int]) -> Tensor:
    """The tensor repeated `repeats[i]` times along axis `i`."""
    if len(repeats) != x.ndim:
        raise ShapeError(f"tile of {x.shape} expects {x.ndim} counts, got {tuple(repeats)}")
    split_shape = tuple(n for length in x.shape for n in (1, length))
    full = tuple(n for length, count in zip(x.shape, repeats, strict=True) for n in (count, length))
    final = tuple(length * count for length, count in zip(x.shape, repeats, strict=True))
    return reshape(broadcast_to(reshape(x, split_shape), full), final)


def zeros(shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """A tensor of zeros."""
    return wrap(np.zeros(tuple(shape), as_dtype(dtype)))


def ones(shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """A tensor of ones."""
    return wrap(np.ones(tuple(shape), as_dtype(dtype)))


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the same shape and dtype."""
    return wrap(np.zeros(x.shape, x.dtype))


def ones_like(x: Tensor) -> Tensor:
    """Ones of the same shape and dtype."""
    return wrap(np.ones(x.shape, x.dtype))


def full(shape: Sequence[int], value: float, dtype: npt.DTypeLike = "float32") -> Tensor:
    """A tensor filled with one value."""
    return wrap(np.full(tuple(shape), value, as_dtype(dtype)))


def arange(*bounds: int, dtype: npt.DTypeLike = "int64") -> Tensor:
    """Numbers from a start (0) up to an end, not included, by a step (1)."""
    return wrap(np.arange(*bounds, dtype=as_dtype(dtype)))
