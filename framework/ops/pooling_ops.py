"""Pooling: the maximum, mean, sum or norm of each window, and pooling to a given output size."""

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np

from .. import kernels
from ..dtype import int32
from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Shape, Spec
from ..tensor import Array, Tensor, wrap
from .indexing_ops import narrow
from .layout import concat
from .matrix_products import matmul
from .reduce import mean
from .sliding_window import (
    AXIS_NAMES,
    Padding,
    PerAxis,
    PoolWindow,
    is_flat,
    per_axis,
    pooled_shape,
    triple,
    volumes_of,
    widened,
    window_arguments,
    window_of,
)


def _max_pool_of(x: Array, *, window: PoolWindow) -> tuple[Array, Array]:
    shape = pooled_shape(x.shape, window)
    wide = widened(x)
    out, places = np.empty(shape, wide.dtype), np.empty(shape, np.int32)
    if is_flat(window):
        before = (window.padding[0][0], window.padding[1][0])
        planes, found, where = (a.reshape(-1, *a.shape[2:]) for a in (wide, out, places))
        kernels.pooling_kernels.max_pool(planes, found, where, window.kernel, window.stride, before)
    else:
        volumes = (volumes_of(wide, x.shape[2:]), volumes_of(out, shape[2:]), volumes_of(places, shape[2:]))
        kernels.pooling_kernels.volume_max_pool(*volumes, *window_arguments(window))
    return out.astype(x.dtype, copy=False), places


def _put_of(g: Array, places: Array, *, shape: Shape) -> Array:
    count, wide = prod(shape[:2]), widened(g)
    out = np.empty((count, prod(shape[2:])), wide.dtype)
    flat = np.ascontiguousarray(places).reshape(count, -1)
    wrong: int = kernels.pooling_kernels.put_places(wide.reshape(count, -1), flat, out)
    if wrong >= 0:
        raise ShapeError(f"place {flat.reshape(-1)[wrong]} does not exist in planes of {shape[2:]}")
    return out.reshape(shape).astype(g.dtype, copy=False)


def _pick_of(x: Array, places: Array) -> Array:
    planes = x.reshape(*x.shape[:2], -1)
    picked = np.take_along_axis(planes, places.reshape(*x.shape[:2], -1), -1).reshape(places.shape)
    return np.where(places < 0, x.dtype.type(0), picked)


def _max_pool_rule(
    needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], x: Tensor, **_: object
) -> tuple[Tensor | None]:
    return (None,) if g[0] is None else (_put(g[0], out[1], shape=x.shape),)


_max_pool: Primitive = Primitive(
    "max_pool",
    _max_pool_of,
    lambda x, *, window: (Spec(pooled_shape(x.shape, window), x.dtype), Spec(pooled_shape(x.shape, window), int32)),
    _max_pool_rule,
    saves_output=True,
)


_put: Primitive = Primitive(
    "put_places",
    _put_of,
    lambda g, places, *, shape: Spec(shape, g.dtype),
    (lambda gg, _, g, places, *, shape: _pick(gg, places), None),
)


_pick: Primitive = Primitive(
    "pick_places",
    _pick_of,
    lambda x, places: Spec(places.shape, x.dtype),
    (lambda g, _, x, places: _put(g, places, shape=x.shape), None),
)


def max_pool_with_places(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its place in its plane `(lengths, flattened)`, int32.

    Args:
        x: `(n, channels, ...)` with one to three further axes.
        kernel: Lengths of the window.
        stride: How far it moves; by its own size by default.
        padding: Elements on both sides that are never the largest; or `valid`, `same`, `same_lower`.
        dilation: Distance of the window's elements.
        ceil_mode: Keep a last window that starts inside and leaves the image at the end.
    """
    window = window_of(x.ndim - 2, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode)
    values, places = _max_pool.several(x, window=window)
    return values, places


def max_pool1d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of each window of rows `(n, c, w)`; see `max_pool2d`."""
    return _max_pool.several(x, window=window_of(1, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode))[0]


def max_pool2d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of each window of images `(n, c, h, w)`; the first of equals gets the gradient."""
    return _max_pool.several(x, window=window_of(2, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode))[0]


def max_pool3d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of each window of volumes `(n, c, d, h, w)`; see `max_pool2d`."""
    return _max_pool.several(x, window=window_of(3, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode))[0]


def max_unpool(x: Tensor, places: Tensor, shape: Shape) -> Tensor:
    """Return zeros of `shape` `(n, c, ...)` with each element at its place in its plane; equal places add up."""
    if x.shape != places.shape or x.shape[:2] != tuple(shape[:2]) or len(shape) != x.ndim:
        raise ShapeError(
            f"max_unpool to {tuple(shape)} expects values and places of one shape, got {x.shape} and "
            f"{places.shape}; their first two axes must be those of the result"
        )
    return _put(x, places, shape=tuple(shape))


#: What a window's sum is divided by: nothing, its elements inside the image, or those inside image and padding.
Divisor = Literal["none", "inside", "padded"]


def _avg_pool_of(x: Array, *, window: PoolWindow, divisor: Divisor) -> Array:
    shape = pooled_shape(x.shape, window)
    wide = widened(x)
    out = np.empty(shape, wide.dtype)
    _run_average(wide, out, window, divisor, forward=True)
    return out.astype(x.dtype, copy=False)


def _avg_pool_gradient_of(g: Array, *, shape: Shape, window: PoolWindow, divisor: Divisor) -> Array:
    wide = widened(g)
    out = np.empty(shape, wide.dtype)
    _run_average(out, wide, window, divisor, forward=False)
    return out.astype(g.dtype, copy=False)


def _run_average(images: Array, pooled: Array, window: PoolWindow, divisor: Divisor, *, forward: bool) -> None:
    """Fill `pooled` from `images`, or in the backward pass `images` from `pooled`."""
    if is_flat(window) and divisor == "padded" and not window.ceil:
        before = (window.padding[0][0], window.padding[1][0])
        flat = [a.reshape(-1, *a.shape[2:]) for a in (images, pooled)]
        run = kernels.pooling_kernels.avg_pool if forward else kernels.pooling_kernels.avg_pool_gradient
        run(*(flat if forward else flat[::-1]), window.kernel, window.stride, before)
        return
    after = triple([side[1] for side in window.padding], 0)
    volumes = volumes_of(images, images.shape[2:]), volumes_of(pooled, pooled.shape[2:])
    run = kernels.pooling_kernels.volume_avg_pool if forward else kernels.pooling_kernels.volume_avg_pool_gradient
    run(*volumes, *window_arguments(window), after, ("none", "inside", "padded").index(divisor))


_avg_pool: Primitive = Primitive(
    "avg_pool",
    _avg_pool_of,
    lambda x, *, window, divisor: Spec(pooled_shape(x.shape, window), x.dtype),
    (lambda g, _, x, **how: _avg_pool_gradient(g, shape=x.shape, **how),),
)


_avg_pool_gradient: Primitive = Primitive(
    "avg_pool_gradient",
    _avg_pool_gradient_of,
    lambda g, *, shape, **_: Spec(shape, g.dtype),
    (lambda gg, _, g, *, shape, **how: _avg_pool(gg, **how),),
)


def _avg_pool_over(x: Tensor, window: PoolWindow, count_include_pad: bool) -> Tensor:
    return _avg_pool(x, window=window, divisor="padded" if count_include_pad else "inside")


def avg_pool1d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of rows `(n, c, w)`; see `avg_pool2d`."""
    window = window_of(1, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode)
    return _avg_pool_over(x, window, count_include_pad)


def avg_pool2d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of images `(n, c, h, w)`.

    Padding counts as zeros, unless `count_include_pad` is false; what a window covers beyond the padding never counts.
    """
    window = window_of(2, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode)
    return _avg_pool_over(x, window, count_include_pad)


def avg_pool3d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of volumes `(n, c, d, h, w)`; see `avg_pool2d`."""
    window = window_of(3, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode)
    return _avg_pool_over(x, window, count_include_pad)


def sum_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the sum of each window of `(n, c, ...)` with one to three further axes."""
    return _avg_pool(
        x, window=window_of(x.ndim - 2, x, kernel, stride, padding, dilation=dilation, ceil=ceil_mode), divisor="none"
    )


def lp_pool(
    x: Tensor,
    p: float,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """`sum(|x|**p) ** (1 / p)` of each window of `(n, c, ...)` with one to three further axes."""
    powers = sum_pool(abs(x) ** p, kernel, stride, padding, dilation=dilation, ceil_mode=ceil_mode)
    return powers ** (1.0 / p)


def global_avg_pool2d(x: Tensor) -> Tensor:
    """Return the mean of each channel of images `(n, c, h, w)`, as `(n, c)`."""
    return mean(x, (2, 3))


def _sections(length: int, parts: int) -> list[tuple[int, int]]:
    """Return where `parts` sections of an axis begin and end; they overlap where the length cannot be divided."""
    return [(i * length // parts, -(-(i + 1) * length // parts)) for i in range(parts)]


def _adaptive_mean(axes: int, x: Tensor, size: PerAxis) -> Tensor:
    lengths = per_axis(size, axes, "the size of adaptive pooling")
    _check_axes(axes, x)
    for axis, parts in enumerate(lengths, 2):
        matrix = np.zeros((x.shape[axis], parts), x.dtype)
        for part, (first, last) in enumerate(_sections(x.shape[axis], parts)):
            matrix[first:last, part] = 1.0 / (last - first)
        x = matmul(x.swapaxes(axis, -1), wrap(matrix)).swapaxes(axis, -1)
    return x


def _adaptive_max(axes: int, x: Tensor, size: PerAxis) -> Tensor:
    lengths = per_axis(size, axes, "the size of adaptive pooling")
    _check_axes(axes, x)
    for axis, parts in enumerate(lengths, 2):
        cuts = [
            narrow(x, axis, first, last).max(axis, keepdims=True) for first, last in _sections(x.shape[axis], parts)
        ]
        x = concat(cuts, axis)
    return x


def _check_axes(axes: int, x: Tensor) -> None:
    if x.ndim != axes + 2:
        raise ShapeError(f"adaptive pooling over {axes} axes expects images (n, c, {AXIS_NAMES[axes]}), got {x.shape}")


def adaptive_avg_pool1d(x: Tensor, size: PerAxis) -> Tensor:
    """Return the means of `size` sections of rows `(n, c, w)`."""
    return _adaptive_mean(1, x, size)


def adaptive_avg_pool2d(x: Tensor, size: PerAxis) -> Tensor:
    """Return the means of `size` sections along each axis of images `(n, c, h, w)`."""
    return _adaptive_mean(2, x, size)


def adaptive_avg_pool3d(x: Tensor, size: PerAxis) -> Tensor:
    """Return the means of `size` sections along each axis of volumes `(n, c, d, h, w)`."""
    return _adaptive_mean(3, x, size)


def adaptive_max_pool1d(x: Tensor, size: PerAxis) -> Tensor:
    """Return the largest elements of `size` sections of rows `(n, c, w)`."""
    return _adaptive_max(1, x, size)


def adaptive_max_pool2d(x: Tensor, size: PerAxis) -> Tensor:
    """Return the largest elements of `size` sections along each axis of images `(n, c, h, w)`."""
    return _adaptive_max(2, x, size)


def adaptive_max_pool3d(x: Tensor, size: PerAxis) -> Tensor:
    """Return the largest elements of `size` sections along each axis of volumes `(n, c, d, h, w)`."""
    return _adaptive_max(3, x, size)
