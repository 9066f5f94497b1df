"""Normalization over a batch, channel by channel."""

from typing import Any

import numpy as np

from .. import kernels
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Shape, Spec
from ..tensor import Array, Tensor
from .arithmetic import divide
from .fused import derived_from
from .math import sqrt
from .norm import spec_of_array, wide
from .reduce import mean


def _planes(x: Array) -> Array:
    """`(batch, channels, everything else)`."""
    return wide(x).reshape(x.shape[0], x.shape[1], -1)


def _check_channels(x: Spec, *vectors: Spec) -> None:
    for vector in vectors:
        if x.ndim < 2 or vector.shape != x.shape[1:2]:
            raise ShapeError(
                f"batch normalization of {x.shape} expects one weight a channel (axis 1), got {vector.shape}"
            )


def _batch_norm_of(x: Array, gamma: Array, beta: Array, *, epsilon: float) -> tuple[Array, ...]:
    _check_channels(spec_of_array(x), spec_of_array(gamma), spec_of_array(beta))
    planes, weight = _planes(x), wide(gamma)
    centre, spread = np.empty_like(weight), np.empty_like(weight)
    kernels.normalization.channel_moments(planes, centre, spread)
    scale = (weight / np.sqrt(spread + weight.dtype.type(epsilon))).astype(weight.dtype, copy=False)
    out = np.empty_like(planes)
    kernels.normalization.channel_scale(planes, scale, wide(beta) - centre * scale, out)
    return tuple(a.astype(x.dtype, copy=False) for a in (out.reshape(x.shape), centre, spread))


def _batch_norm_gradient_of(
    g: Array, x: Array, gamma: Array, centre: Array, spread: Array, *, epsilon: float
) -> tuple[Array, ...]:
    planes, weight = _planes(x), wide(gamma)
    of_x, of_gamma, of_beta = np.empty_like(planes), np.empty_like(weight), np.empty_like(weight)
    kernels.normalization.batch_norm_gradient(
        _planes(g), planes, weight, wide(centre), wide(spread), of_x, of_gamma, of_beta, epsilon
    )
    found = (of_x.reshape(x.shape), of_gamma, of_beta)
    return tuple(array.astype(x.dtype, copy=False) for array in found)


def _compose_batch_norm_gradient(
    g: Tensor, x: Tensor, gamma: Tensor, centre: Tensor, spread: Tensor, *, epsilon: float
) -> tuple[Tensor, ...]:
    """The moments are functions of `x` here: that is how the second derivative finds them."""
    axes = (0, *range(2, x.ndim))
    shape: Shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    centred = x - mean(x, axes, keepdims=True)
    scale = divide(1.0, sqrt(mean(centred * centred, axes, keepdims=True) + epsilon))
    normal = centred * scale
    along = mean(g * normal, axes, keepdims=True)
    of_x = gamma.reshape(shape) * scale * (g - mean(g, axes, keepdims=True) - normal * along)
    return of_x, (g * normal).sum(axes), g.sum(axes)


def _batch_norm_rule(needs: Any, g: Any, out: Any, x: Tensor, gamma: Tensor, beta: Tensor, *, epsilon: float) -> Any:
    if g[0] is None:
        return None, None, None
    return _batch_norm_gradient.several(g[0], x, gamma, out[1].detach(), out[2].detach(), epsilon=epsilon)


_batch_norm: Primitive = Primitive(
    "batch_norm",
    _batch_norm_of,
    lambda x, gamma, beta, *, epsilon: (x, gamma, gamma),
    _batch_norm_rule,
    saves_output=True,
)


_batch_norm_gradient: Primitive = Primitive(
    "batch_norm_gradient",
    _batch_norm_gradient_of,
    lambda g, x, gamma, centre, spread, *, epsilon: (x, gamma, gamma),
    derived_from(_compose_batch_norm_gradient),
)


def batch_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """`(y, mean, var)`: `x` `(batch, channels, ...)` normalized by the batch's own moments, and those moments.

    The population variance is returned; no gradient flows through the moments.

    Reference:
        Ioffe and Szegedy 2015, arXiv:1502.03167.
    """
    y, centre, spread = _batch_norm.several(x, gamma, beta, epsilon=epsilon)
    return y, centre.detach(), spread.detach()


def batch_norm_inference(
    x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5
) -> Tensor:
    """`x` `(batch, channels, ...)` normalized by given moments."""
    shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    scale = divide(gamma, sqrt(var + epsilon))
    return x * scale.reshape(shape) + (beta - mean * scale).reshape(shape)
