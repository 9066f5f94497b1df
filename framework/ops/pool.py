"""Pooling over one, two or three axes: the largest element, or the mean, of each window."""

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import kernels
from ..dtype import float32, float64, int32
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Shape, Spec
from ..tensor import Array, Tensor, wrap
from .array import concat
from .indexing import narrow
from .linalg import matmul
from .reduce import mean
from .window import Padding, PerAxis, Sides, per_axis, sides_of, window_count

#: What a window's sum is divided by: nothing, its elements inside the image, or those inside image and padding.
Divisor = Literal["none", "inside", "padded"]

_AXES = {1: "w", 2: "h, w", 3: "d, h, w"}


class PoolWindow(NamedTuple):
    """How the window slides: one entry for each of 1 to 3 axes; `ceil` keeps a last window that leaves the image."""

    kernel: Shape
    stride: Shape
    padding: Sides
    dilation: Shape
    ceil: bool = False


def _wide(x: Array) -> Array:
    """The array in a type the kernels compute in; 32- and 64-bit integers in float64."""
    if x.dtype in (float32, float64):
        return np.ascontiguousarray(x)
    return np.ascontiguousarray(x.astype(float64 if x.dtype.kind in "iu" and x.dtype.itemsize > 2 else float32))


def _pooled(shape: Shape, window: PoolWindow) -> Shape:
    axes = len(window.kernel)
    if len(shape) != axes + 2:
        raise ShapeError(f"pooling over {axes} axes expects images (n, c, {_AXES[axes]}), got {shape}")
    lengths = []
    for i in range(axes):
        kernel, stride, sides, dilation = (
            window.kernel[i],
            window.stride[i],
            window.padding[i],
            window.dilation[i],
        )
        if max(sides) >= dilation * (kernel - 1) + 1:
            raise ShapeError(f"pooling expects padding smaller than the window {window.kernel}, got {window.padding}")
        lengths.append(window_count(shape[2 + i], kernel, stride, sides, dilation, window.ceil))
    return (*shape[:2], *lengths)


def _triple(values: Sequence[int], fill: int) -> tuple[int, int, int]:
    depth, height, width = (*(fill,) * (3 - len(values)), *values)
    return depth, height, width


def _volumes(x: Array, lengths: Shape) -> Array:
    """`(planes, depth, height, width)`."""
    return x.reshape(prod(x.shape[:2]), *_triple(lengths, 1))


def _arguments(window: PoolWindow) -> tuple[tuple[int, int, int], ...]:
    before = [side[0] for side in window.padding]
    return (_triple(window.kernel, 1), _triple(window.stride, 1), _triple(before, 0), _triple(window.dilation, 1))


def _is_flat(window: PoolWindow) -> bool:
    """Whether the kernels for images without gaps can be used."""
    return len(window.kernel) == 2 and window.dilation == (1, 1)


def _max_pool_of(x: Array, *, window: PoolWindow) -> tuple[Array, Array]:
    shape = _pooled(x.shape, window)
    wide = _wide(x)
    out, places = np.empty(shape, wide.dtype), np.empty(shape, np.int32)
    if _is_flat(window):
        before = (window.padding[0][0], window.padding[1][0])
        planes, found, where = (a.reshape(-1, *a.shape[2:]) for a in (wide, out, places))
        kernels.window.max_pool(planes, found, where, window.kernel, window.stride, before)
    else:
        volumes = (_volumes(wide, x.shape[2:]), _volumes(out, shape[2:]), _volumes(places, shape[2:]))
        kernels.pool.max_pool(*volumes, *_arguments(window))
    return out.astype(x.dtype, copy=False), places


def _put_of(g: Array, places: Array, *, shape: Shape) -> Array:
    count, wide = prod(shape[:2]), _wide(g)
    out = np.empty((count, prod(shape[2:])), wide.dtype)
    flat = np.ascontiguousarray(places).reshape(count, -1)
    wrong: int = kernels.window.put_places(wide.reshape(count, -1), flat, out)
    if wrong >= 0:
        raise ShapeError(f"place {flat.reshape(-1)[wrong]} does not exist in planes of {shape[2:]}")
    return out.reshape(shape).astype(g.dtype, copy=False)


def _pick_of(x: Array, places: Array) -> Array:
    planes = x.reshape(*x.shape[:2], -1)
    picked = np.take_along_axis(planes, places.reshape(*x.shape[:2], -1), -1).reshape(places.shape)
    return np.where(places < 0, x.dtype.type(0), picked)


def _max_pool_rule(needs: Any, g: Any, out: Any, x: Tensor, **_: Any) -> tuple[Tensor | None]:
    return (None,) if g[0] is None else (_put(g[0], out[1], shape=x.shape),)


_max_pool: Primitive = Primitive(
    "max_pool",
    _max_pool_of,
    lambda x, *, window: (Spec(_pooled(x.shape, window), x.dtype), Spec(_pooled(x.shape, window), int32)),
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


def _window(
    axes: int,
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None,
    padding: Padding,
    dilation: PerAxis = 1,
    ceil: bool = False,
) -> PoolWindow:
    size, spread = per_axis(kernel, axes, "a pooling window"), per_axis(dilation, axes, "dilation")
    step = size if stride is None else per_axis(stride, axes, "stride")
    sides = ((0, 0),) * axes if x.ndim != axes + 2 else sides_of(padding, x.shape[2:], size, step, spread)
    return PoolWindow(size, step, sides, spread, ceil)


def max_pool_with_places(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its place in its plane `(lengths, flattened)`, int32.

    Args:
        x: `(n, channels, ...)` with one to three further axes.
        kernel: Lengths of the window.
        stride: How far it moves; by its own size by default.
        padding: Elements on both sides that are never the largest; or `valid`, `same`, `same_lower`.
        dilation: Distance of the window's elements.
        ceil_mode: Keep a last window that starts inside and leaves the image at the end.
    """
    window = _window(x.ndim - 2, x, kernel, stride, padding, dilation, ceil_mode)
    values, places = _max_pool.several(x, window=window)
    return values, places


def _max_pool_over(axes: int, x: Tensor, *arguments: Any) -> Tensor:
    found: Tensor = _max_pool.several(x, window=_window(axes, x, *arguments))[0]
    return found


def max_pool1d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of rows `(n, c, w)`; see `max_pool2d`."""
    return _max_pool_over(1, x, kernel, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of images `(n, c, h, w)`; the first of equals gets the gradient."""
    return _max_pool_over(2, x, kernel, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of volumes `(n, c, d, h, w)`; see `max_pool2d`."""
    return _max_pool_over(3, x, kernel, stride, padding, dilation, ceil_mode)


def max_unpool(x: Tensor, places: Tensor, shape: Shape) -> Tensor:
    """Zeros of `shape` `(n, c, ...)` with each element at its place in its plane; equal places add up."""
    if x.shape != places.shape or x.shape[:2] != tuple(shape[:2]) or len(shape) != x.ndim:
        raise ShapeError(
            f"max_unpool to {tuple(shape)} expects values and places of one shape, got {x.shape} and "
            f"{places.shape}; their first two axes must be those of the result"
        )
    return _put(x, places, shape=tuple(shape))


def _avg_pool_of(x: Array, *, window: PoolWindow, divisor: Divisor) -> Array:
    shape = _pooled(x.shape, window)
    wide = _wide(x)
    out = np.empty(shape, wide.dtype)
    _run_average(wide, out, window, divisor, forward=True)
    return out.astype(x.dtype, copy=False)


def _avg_pool_gradient_of(g: Array, *, shape: Shape, window: PoolWindow, divisor: Divisor) -> Array:
    wide = _wide(g)
    out = np.empty(shape, wide.dtype)
    _run_average(out, wide, window, divisor, forward=False)
    return out.astype(g.dtype, copy=False)


def _run_average(images: Array, pooled: Array, window: PoolWindow, divisor: Divisor, *, forward: bool) -> None:
    """Nothing; `pooled` is filled from `images`, or on the way back `images` from `pooled`."""
    if _is_flat(window) and divisor == "padded" and not window.ceil:
        before = (window.padding[0][0], window.padding[1][0])
        flat = [a.reshape(-1, *a.shape[2:]) for a in (images, pooled)]
        run = kernels.window.avg_pool if forward else kernels.window.avg_pool_gradient
        run(*(flat if forward else flat[::-1]), window.kernel, window.stride, before)
        return
    after = _triple([side[1] for side in window.padding], 0)
    volumes = _volumes(images, images.shape[2:]), _volumes(pooled, pooled.shape[2:])
    run = kernels.pool.avg_pool if forward else kernels.pool.avg_pool_gradient
    run(*volumes, *_arguments(window), after, ("none", "inside", "padded").index(divisor))


_avg_pool: Primitive = Primitive(
    "avg_pool",
    _avg_pool_of,
    lambda x, *, window, divisor: Spec(_pooled(x.shape, window), x.dtype),
    (lambda g, _, x, **how: _avg_pool_gradient(g, shape=x.shape, **how),),
)
_avg_pool_gradient: Primitive = Primitive(
    "avg_pool_gradient",
    _avg_pool_gradient_of,
    lambda g, *, shape, **_: Spec(shape, g.dtype),
    (lambda gg, _, g, *, shape, **how: _avg_pool(gg, **how),),
)


def _avg_pool_over(axes: int, x: Tensor, count_include_pad: bool, *arguments: Any) -> Tensor:
    return _avg_pool(x, window=_window(axes, x, *arguments), divisor="padded" if count_include_pad else "inside")


def avg_pool1d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of rows `(n, c, w)`; see `avg_pool2d`."""
    return _avg_pool_over(1, x, count_include_pad, kernel, stride, padding, dilation, ceil_mode)


def avg_pool2d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of images `(n, c, h, w)`.

    Padding counts as zeros, unless `count_include_pad` is false; what a window covers beyond the padding never counts.
    """
    return _avg_pool_over(2, x, count_include_pad, kernel, stride, padding, dilation, ceil_mode)


def avg_pool3d(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of volumes `(n, c, d, h, w)`; see `avg_pool2d`."""
    return _avg_pool_over(3, x, count_include_pad, kernel, stride, padding, dilation, ceil_mode)


def sum_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The sum of each window of `(n, c, ...)` with one to three further axes."""
    return _avg_pool(x, window=_window(x.ndim - 2, x, kernel, stride, padding, dilation, ceil_mode), divisor="none")


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
    """The mean of each channel of images `(n, c, h, w)`, as `(n, c)`."""
    return mean(x, (2, 3))


def _sections(length: int, parts: int) -> list[tuple[int, int]]:
    """Where `parts` sections of an axis begin and end; they overlap where the length cannot be divided."""
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
        raise ShapeError(f"adaptive pooling over {axes} axes expects images (n, c, {_AXES[axes]}), got {x.shape}")


def adaptive_avg_pool1d(x: Tensor, size: PerAxis) -> Tensor:
    """The means of `size` sections of rows `(n, c, w)`."""
    return _adaptive_mean(1, x, size)


def adaptive_avg_pool2d(x: Tensor, size: PerAxis) -> Tensor:
    """The means of `size` sections along each axis of images `(n, c, h, w)`."""
    return _adaptive_mean(2, x, size)


def adaptive_avg_pool3d(x: Tensor, size: PerAxis) -> Tensor:
    """The means of `size` sections along each axis of volumes `(n, c, d, h, w)`."""
    return _adaptive_mean(3, x, size)


def adaptive_max_pool1d(x: Tensor, size: PerAxis) -> Tensor:
    """The largest elements of `size` sections of rows `(n, c, w)`."""
    return _adaptive_max(1, x, size)


def adaptive_max_pool2d(x: Tensor, size: PerAxis) -> Tensor:
    """The largest elements of `size` sections along each axis of images `(n, c, h, w)`."""
    return _adaptive_max(2, x, size)


def adaptive_max_pool3d(x: Tensor, size: PerAxis) -> Tensor:
    """The largest elements of `size` sections along each axis of volumes `(n, c, d, h, w)`."""
    return _adaptive_max(3, x, size)
