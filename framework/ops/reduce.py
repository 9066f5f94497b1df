"""Reductions over axes, and broadcasting, which is their transpose."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TypeVar

import numpy as np

from ..dtype import NARROW, Dtype, int64, uint64
from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Axes, Shape, Spec, broadcast_shapes, normalize_axes, reduced_shape
from ..tensor import Array, Tensor, TensorLike, method
from .operands import as_floating, as_tensor, conjugate


def _total(x: Array, axes: Shape, keepdims: bool) -> Array:
    """Sum in the dtype of `x`, accumulated in float32 for the 16-bit types."""
    if x.dtype in NARROW:
        return np.asarray(x.sum(axes, np.float32, keepdims=keepdims)).astype(x.dtype)
    return np.asarray(x.sum(axes, keepdims=keepdims))


def _infer_broadcast_to(x: Spec, *, shape: Shape) -> Spec:
    if broadcast_shapes(x.shape, shape) != tuple(shape):
        raise ShapeError(f"{x.shape} does not broadcast to {shape}")
    return Spec(tuple(shape), x.dtype)


_broadcast_to: Primitive = Primitive(
    "broadcast_to",
    lambda x, *, shape: np.broadcast_to(x, shape),
    _infer_broadcast_to,
    (lambda g, _, x, *, shape: sum_to(g, x),),
    eager_vjp=lambda needs, g, _, x, *, shape: (array_sum_to(g, x),),
)

# Elements up to which a copy takes less time than NumPy needs to make a view that repeats them.
_FEW = 1 << 12


def _repeated(x: Array, shape: Shape) -> Array:
    """Return the array repeated up to `shape`; the caller only reads it."""
    if prod(shape) > _FEW:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the tensor repeated along axes of length 1, and along new ones in front, up to `shape`."""
    return _broadcast_to(x, shape=tuple(shape))


@lru_cache(64)
def _ones(count: int, dtype: Dtype) -> Array:
    ones = np.ones(count, dtype)
    ones.flags.writeable = False
    return ones


def _sum_to_shape(x: Array, *, shape: Shape) -> Array:
    extra = x.ndim - len(shape)
    axes = tuple(range(extra))
    if 1 in shape:
        axes += tuple([axis for axis, length in enumerate(shape, extra) if length == 1 and x.shape[axis] != 1])
    if (not axes or axes[-1] == len(axes) - 1) and x.flags.c_contiguous and x.size and x.dtype not in NARROW:
        # Leading axes only: a vector of ones times the matrix, which BLAS sums at memory speed.
        columns = x if len(axes) == 1 and x.ndim == 2 else x.reshape(prod(x.shape[: len(axes)]), -1)
        count = len(columns)
        ones = _ones(count, x.dtype) if count <= _FEW else np.ones(count, x.dtype)
        total: Array = np.dot(ones, columns)
        return total if total.shape == shape else total.reshape(shape)
    return np.asarray(_total(x, axes, keepdims=False)).reshape(shape)


def _infer_sum_to(x: Spec, *, shape: Shape) -> Spec:
    if broadcast_shapes(x.shape, shape) != x.shape:
        raise ShapeError(f"sum_to expects a shape that broadcasts to {x.shape}, got {shape}")
    return Spec(tuple(shape), x.dtype)


_sum_to: Primitive = Primitive(
    "sum_to",
    _sum_to_shape,
    _infer_sum_to,
    (lambda g, _, x, *, shape: _broadcast_to(g, shape=x.shape),),
)


def sum_to(x: Tensor, like: TensorLike | Shape) -> Tensor:
    """Return the sum over the axes along which `like` (a tensor, a number or a shape) was broadcast to the shape of
    `x`."""
    shape = like.shape if isinstance(like, Tensor) else like if isinstance(like, tuple) else ()
    if x.shape == shape:
        return x
    return _sum_to(x, shape=shape)


_Values = TypeVar("_Values", Tensor, Array)


def array_sum_to(x: Array, like: Array | complex) -> Array:
    """Return what `sum_to` is for tensors: `like` is an array or a number."""
    shape = like.shape if isinstance(like, np.ndarray) else ()
    return x if x.shape == shape else _sum_to.evaluate(x, shape=shape)


def _infer_reduction(x: Spec, *, axes: Shape, keepdims: bool) -> Spec:
    return Spec(reduced_shape(x.shape, axes, keepdims), x.dtype)


def _infer_sum(x: Spec, *, axes: Shape, keepdims: bool) -> Spec:
    dtype = int64 if x.dtype.kind in "bi" else uint64 if x.dtype.kind == "u" else x.dtype
    return Spec(reduced_shape(x.shape, axes, keepdims), dtype)


def kept(g: _Values, x: _Values, axes: Shape) -> _Values:
    """Return the gradient of a reduction with the reduced axes back in place, of length 1."""
    if x.ndim == 1:
        return g if g.ndim else g.reshape((1,))
    shape = reduced_shape(x.shape, axes, keepdims=True)
    return g if g.shape == shape else g.reshape(shape)


_sum: Primitive = Primitive(
    "sum",
    lambda x, *, axes, keepdims: _total(x, axes, keepdims),
    _infer_sum,
    (lambda g, _, x, *, axes, keepdims: _broadcast_to(kept(g, x, axes), shape=x.shape),),
    eager_vjp=lambda needs, g, _, x, *, axes, keepdims: (_repeated(kept(g, x, axes), x.shape),),
)


@method
def sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum over `axis`; integers add up in int64, 16-bit floats in float32."""
    x = as_tensor(x)
    if x.dtype.kind == "b":
        x = x.astype(int64)
    return _sum(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


def _mean_of(x: Array, *, axes: Shape, keepdims: bool) -> Array | np.generic:
    if x.dtype in NARROW:
        narrow: Array | np.generic = np.mean(x, axis=axes, keepdims=keepdims, dtype=np.float32).astype(x.dtype)
        return narrow
    count = prod([x.shape[axis] for axis in axes])
    mean: Array | np.generic = x.sum(axes, keepdims=keepdims) / x.dtype.type(count)
    return mean


def _mean_gradient(g: Tensor, _: None, x: Tensor, *, axes: Shape, keepdims: bool) -> Tensor:
    count = prod(x.shape[axis] for axis in axes)
    return _broadcast_to(kept(g, x, axes) * (1.0 / (count or 1)), shape=x.shape)


def _mean_eagerly(needs: object, g: Array, _: None, x: Array, *, axes: Shape, keepdims: bool) -> tuple[Array]:
    share = g.dtype.type(1.0 / (prod([x.shape[axis] for axis in axes]) or 1))
    return (_repeated(np.multiply(kept(g, x, axes), share), x.shape),)


_mean: Primitive = Primitive("mean", _mean_of, _infer_reduction, (_mean_gradient,), eager_vjp=_mean_eagerly)


@method
def mean(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return mean over `axis`; NaN where there is no element."""
    x = as_floating(x)
    return _mean(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


@method
def var(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return population variance over `axis`."""
    centred = x - mean(x, axis, keepdims=True)
    return mean(centred * conjugate(centred), axis, keepdims)


def _extreme_gradient(g: Tensor, out: Tensor, x: Tensor, *, axes: Shape, keepdims: bool) -> Tensor:
    """Return the gradient shared evenly by the elements that are equal to the extreme."""
    chosen = (x == kept(out, x, axes)).astype(x.dtype)
    share: Tensor = kept(g, x, axes) / chosen.sum(axes, keepdims=True) * chosen
    return share


_max: Primitive = Primitive(
    "max",
    lambda x, *, axes, keepdims: np.max(x, axis=axes, keepdims=keepdims),
    _infer_reduction,
    (_extreme_gradient,),
    saves_output=True,
)
_min: Primitive = Primitive(
    "min",
    lambda x, *, axes, keepdims: np.min(x, axis=axes, keepdims=keepdims),
    _infer_reduction,
    (_extreme_gradient,),
    saves_output=True,
)


@method
def max(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return largest element over `axis`, NaN if there is one; equal largest elements share the gradient."""
    return _max(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)


@method
def min(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return smallest element over `axis`, NaN if there is one; equal smallest elements share the gradient."""
    return _min(x, axes=normalize_axes(axis, x.ndim), keepdims=keepdims)
