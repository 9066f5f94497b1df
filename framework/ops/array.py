"""Shape and place: operations that move elements and leave their values alone."""

from collections.abc import Sequence
from math import prod

import numpy.typing as npt

from ..dtype import as_dtype
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Axes, Shape, Spec, normalize_axes, normalize_axis, reshaped
from ..tensor import Tensor, method
from .operands import as_tensor, cast_to

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
