"""The largest element of each window, where it stood, and the way back from there."""

from math import prod
from typing import Any

import numpy as np

from .. import kernels
from ..dtype import int32
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Shape, Spec
from ..tensor import Array, Tensor
from .pool_window import PoolWindow, is_flat, pooled_shape, volumes_of, widened, window_arguments, window_of
from .window import Padding, PerAxis


def _max_pool_of(x: Array, *, window: PoolWindow) -> tuple[Array, Array]:
    shape = pooled_shape(x.shape, window)
    wide = widened(x)
    out, places = np.empty(shape, wide.dtype), np.empty(shape, np.int32)
    if is_flat(window):
        before = (window.padding[0][0], window.padding[1][0])
        planes, found, where = (a.reshape(-1, *a.shape[2:]) for a in (wide, out, places))
        kernels.window.max_pool(planes, found, where, window.kernel, window.stride, before)
    else:
        volumes = (volumes_of(wide, x.shape[2:]), volumes_of(out, shape[2:]), volumes_of(places, shape[2:]))
        kernels.pool.max_pool(*volumes, *window_arguments(window))
    return out.astype(x.dtype, copy=False), places


def _put_of(g: Array, places: Array, *, shape: Shape) -> Array:
    count, wide = prod(shape[:2]), widened(g)
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
    """The largest element of each window, and its place in its plane `(lengths, flattened)`, int32.

    Args:
        x: `(n, channels, ...)` with one to three further axes.
        kernel: Lengths of the window.
        stride: How far it moves; by its own size by default.
        padding: Elements on both sides that are never the largest; or `valid`, `same`, `same_lower`.
        dilation: Distance of the window's elements.
        ceil_mode: Keep a last window that starts inside and leaves the image at the end.
    """
    window = window_of(x.ndim - 2, x, kernel, stride, padding, dilation, ceil_mode)
    values, places = _max_pool.several(x, window=window)
    return values, places


def _max_pool_over(axes: int, x: Tensor, *arguments: Any) -> Tensor:
    found: Tensor = _max_pool.several(x, window=window_of(axes, x, *arguments))[0]
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
