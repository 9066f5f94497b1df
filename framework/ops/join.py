"""Tensors put together along an axis, and cut apart."""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from ..dtype import promote
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Shape, Spec, normalize_axis
from ..tensor import Tensor, method
from .array import expand_dims, identity
from .create import zeros
from .operands import cast_to


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


@method
def halves(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The two halves along `axis`."""
    length = x.shape[normalize_axis(axis, x.ndim)]
    if length % 2:
        raise ShapeError(f"two halves along axis {axis} expect an even length, got shape {x.shape}")
    first, second = split(x, length // 2, axis)
    return first, second
