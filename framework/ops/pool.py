"""Pooling of images: the largest element, or the mean, of each window."""

from typing import Any

import numpy as np

from .. import kernels
from ..dtype import float32, float64, int32
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Shape, Spec, window_length
from ..tensor import Array, Tensor
from .conv import as_pair
from .reduce import mean


def _wide(x: Array) -> Array:
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


def _pooled(shape: Shape, *, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> Shape:
    if len(shape) != 4:
        raise ShapeError(f"pooling expects images (n, c, h, w), got {shape}")
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise ShapeError(f"pooling expects padding of at most half the window {kernel}, got {padding}")
    sizes = (window_length(shape[2 + i], kernel[i], stride[i], padding[i]) for i in (0, 1))
    return (*shape[:2], *sizes)


def _max_pool_of(x: Array, **how: Any) -> tuple[Array, Array]:
    shape = _pooled(x.shape, **how)
    planes = _wide(x).reshape(-1, *x.shape[2:])
    out = np.empty((len(planes), *shape[2:]), planes.dtype)
    places = np.empty(out.shape, np.int32)
    kernels.window.max_pool(planes, out, places, how["kernel"], how["stride"], how["padding"])
    return out.reshape(shape).astype(x.dtype, copy=False), places.reshape(shape)


def _put_of(g: Array, places: Array, *, shape: Shape) -> Array:
    count = shape[0] * shape[1]
    out = np.empty((count, shape[2] * shape[3]), _wide(g).dtype)
    kernels.window.put_places(_wide(g).reshape(count, -1), np.ascontiguousarray(places).reshape(count, -1), out)
    return out.reshape(shape).astype(g.dtype, copy=False)


def _pick_of(x: Array, places: Array) -> Array:
    planes = x.reshape(*x.shape[:2], -1)
    return np.take_along_axis(planes, places.reshape(*x.shape[:2], -1), -1).reshape(places.shape)


def _max_pool_rule(needs: Any, g: Any, out: Any, x: Tensor, **_: Any) -> tuple[Tensor | None]:
    return (None,) if g[0] is None else (_put(g[0], out[1], shape=x.shape),)


_max_pool: Primitive = Primitive(
    "max_pool2d",
    _max_pool_of,
    lambda x, **how: (Spec(_pooled(x.shape, **how), x.dtype), Spec(_pooled(x.shape, **how), int32)),
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


def max_pool2d(
    x: Tensor,
    kernel: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] = 0,
) -> Tensor:
    """The largest element of each window of images `(n, c, h, w)`; the first of equals gets the gradient."""
    step = kernel if stride is None else stride
    found: Tensor = _max_pool.several(x, kernel=as_pair(kernel), stride=as_pair(step), padding=as_pair(padding))[0]
    return found


def _avg_pool_of(x: Array, **how: Any) -> Array:
    shape = _pooled(x.shape, **how)
    planes = _wide(x).reshape(-1, *x.shape[2:])
    out = np.empty((len(planes), *shape[2:]), planes.dtype)
    kernels.window.avg_pool(planes, out, how["kernel"], how["stride"], how["padding"])
    return out.reshape(shape).astype(x.dtype, copy=False)


def _avg_pool_gradient_of(g: Array, *, shape: Shape, **how: Any) -> Array:
    planes = _wide(g).reshape(-1, *g.shape[2:])
    out = np.empty((len(planes), *shape[2:]), planes.dtype)
    kernels.window.avg_pool_gradient(planes, out, how["kernel"], how["stride"], how["padding"])
    return out.reshape(shape).astype(g.dtype, copy=False)


_avg_pool: Primitive = Primitive(
    "avg_pool2d",
    _avg_pool_of,
    lambda x, **how: Spec(_pooled(x.shape, **how), x.dtype),
    (lambda g, _, x, **how: _avg_pool_gradient(g, shape=x.shape, **how),),
)
_avg_pool_gradient: Primitive = Primitive(
    "avg_pool2d_gradient",
    _avg_pool_gradient_of,
    lambda g, *, shape, **_: Spec(shape, g.dtype),
    (lambda gg, _, g, *, shape, **how: _avg_pool(gg, **how),),
)


def avg_pool2d(
    x: Tensor,
    kernel: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] = 0,
) -> Tensor:
    """The mean of each window of images `(n, c, h, w)`; padding counts as zeros."""
    step = kernel if stride is None else stride
    return _avg_pool(x, kernel=as_pair(kernel), stride=as_pair(step), padding=as_pair(padding))


def global_avg_pool2d(x: Tensor) -> Tensor:
    """The mean of each channel of images `(n, c, h, w)`, as `(n, c)`."""
    return mean(x, (2, 3))
