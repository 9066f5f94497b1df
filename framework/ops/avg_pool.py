"""The mean of each window of an image, its sum, and other norms, over one, two or three axes."""

from typing import Any, Literal

import numpy as np

from .. import kernels
from ..primitive import Primitive
from ..shape import Shape, Spec
from ..tensor import Array, Tensor
from .pool_window import PoolWindow, is_flat, pooled_shape, triple, volumes_of, widened, window_arguments, window_of
from .reduce import mean
from .window import Padding, PerAxis

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
    """Nothing; `pooled` is filled from `images`, or on the way back `images` from `pooled`."""
    if is_flat(window) and divisor == "padded" and not window.ceil:
        before = (window.padding[0][0], window.padding[1][0])
        flat = [a.reshape(-1, *a.shape[2:]) for a in (images, pooled)]
        run = kernels.window.avg_pool if forward else kernels.window.avg_pool_gradient
        run(*(flat if forward else flat[::-1]), window.kernel, window.stride, before)
        return
    after = triple([side[1] for side in window.padding], 0)
    volumes = volumes_of(images, images.shape[2:]), volumes_of(pooled, pooled.shape[2:])
    run = kernels.pool.avg_pool if forward else kernels.pool.avg_pool_gradient
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


def _avg_pool_over(axes: int, x: Tensor, count_include_pad: bool, *arguments: Any) -> Tensor:
    return _avg_pool(x, window=window_of(axes, x, *arguments), divisor="padded" if count_include_pad else "inside")


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
    return _avg_pool(x, window=window_of(x.ndim - 2, x, kernel, stride, padding, dilation, ceil_mode), divisor="none")


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
