"""Normalization over the last axis, over a batch, over groups of channels, and to unit length."""

from collections.abc import Sequence
from math import prod

import numpy as np

from .. import kernels
from ..dtype import float32, float64
from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Axes, Shape, Spec
from ..tensor import Array, Tensor, method
from .arithmetic_ops import divide, maximum, multiply, square, subtract
from .create import full
from .fused_derivatives import derived_from
from .indexing_ops import narrow, pad
from .operands import as_real
from .reduce import mean, sum_to
from .statistical_ops import safe_sqrt, vector_norm
from .transcendental import power, sqrt


def wide(x: Array) -> Array:
    """Return the array in a type the kernels compute in: 16-bit floats in float32."""
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


def _rows(x: Array) -> Array:
    return wide(x).reshape(-1, x.shape[-1])


def _check_width(x: Spec, *vectors: Spec) -> None:
    for vector in vectors:
        if x.ndim < 1 or vector.shape != x.shape[-1:]:
            raise ShapeError(
                f"normalization of {x.shape} over its last axis expects weights {x.shape[-1:]}, got {vector.shape}"
            )


def _infer_rows(x: Spec, *vectors: Spec, epsilon: float) -> Spec:
    _check_width(x, *vectors)
    return x


def _layer_norm_of(x: Array, gamma: Array, beta: Array, *, epsilon: float) -> Array:
    _check_width(spec_of_array(x), spec_of_array(gamma), spec_of_array(beta))
    rows = _rows(x)
    out = np.empty_like(rows)
    kernels.normalization_kernels.layer_norm(rows, wide(gamma), wide(beta), out, epsilon)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _layer_norm_gradient_of(g: Array, x: Array, gamma: Array, *, epsilon: float) -> tuple[Array, ...]:
    rows, weight = _rows(x), wide(gamma)
    of_x, of_gamma, of_beta = np.empty_like(rows), np.empty_like(weight), np.empty_like(weight)
    kernels.normalization_kernels.layer_norm_gradient(_rows(g), rows, weight, of_x, of_gamma, of_beta, epsilon)
    found = (of_x.reshape(x.shape), of_gamma, of_beta)
    return tuple(array.astype(x.dtype, copy=False) for array in found)


def spec_of_array(x: Array) -> Spec:
    """Return the spec of an array."""
    return Spec(x.shape, x.dtype)


def _compose_layer_norm_gradient(g: Tensor, x: Tensor, gamma: Tensor, *, epsilon: float) -> tuple[Tensor, ...]:
    centred = x - mean(x, -1, keepdims=True)
    scale = divide(1.0, sqrt(mean(centred * centred, -1, keepdims=True) + epsilon))
    normal = centred * scale
    weighted = g * gamma
    along = mean(weighted * normal, -1, keepdims=True)
    of_x = scale * (weighted - mean(weighted, -1, keepdims=True) - normal * along)
    return of_x, sum_to(g * normal, gamma), sum_to(g, gamma)


_layer_norm: Primitive = Primitive(
    "layer_norm",
    _layer_norm_of,
    _infer_rows,
    lambda needs, g, _, x, gamma, beta, *, epsilon: _layer_norm_gradient.several(g, x, gamma, epsilon=epsilon),
)


_layer_norm_gradient: Primitive = Primitive(
    "layer_norm_gradient",
    _layer_norm_gradient_of,
    lambda g, x, gamma, *, epsilon: (x, gamma, gamma),
    derived_from(_compose_layer_norm_gradient),
)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Return `(x - mean) / sqrt(var + epsilon) gamma + beta` over the last axis.

    Reference:
        Ba et al. 2016, arXiv:1607.06450.
    """
    return _layer_norm(x, gamma, beta, epsilon=epsilon)


def _rms_norm_of(x: Array, gamma: Array, *, epsilon: float) -> Array:
    _check_width(spec_of_array(x), spec_of_array(gamma))
    rows = _rows(x)
    out = np.empty_like(rows)
    kernels.normalization_kernels.rms_norm(rows, wide(gamma), out, epsilon)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _rms_norm_gradient_of(g: Array, x: Array, gamma: Array, *, epsilon: float) -> tuple[Array, ...]:
    rows, weight = _rows(x), wide(gamma)
    of_x, of_gamma = np.empty_like(rows), np.empty_like(weight)
    kernels.normalization_kernels.rms_norm_gradient(_rows(g), rows, weight, of_x, of_gamma, epsilon)
    return of_x.reshape(x.shape).astype(x.dtype, copy=False), of_gamma.astype(x.dtype, copy=False)


def _compose_rms_norm_gradient(g: Tensor, x: Tensor, gamma: Tensor, *, epsilon: float) -> tuple[Tensor, ...]:
    scale = divide(1.0, sqrt(mean(x * x, -1, keepdims=True) + epsilon))
    weighted = g * gamma
    along = mean(weighted * x, -1, keepdims=True)
    return scale * weighted - x * along * scale * scale * scale, sum_to(g * x * scale, gamma)


_rms_norm: Primitive = Primitive(
    "rms_norm",
    _rms_norm_of,
    _infer_rows,
    lambda needs, g, _, x, gamma, *, epsilon: _rms_norm_gradient.several(g, x, gamma, epsilon=epsilon),
)


_rms_norm_gradient: Primitive = Primitive(
    "rms_norm_gradient",
    _rms_norm_gradient_of,
    lambda g, x, gamma, *, epsilon: (x, gamma),
    derived_from(_compose_rms_norm_gradient),
)


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Return `x / sqrt(mean(x**2) + epsilon) gamma` over the last axis.

    Reference:
        Zhang and Sennrich 2019, arXiv:1910.07467.
    """
    return _rms_norm(x, gamma, epsilon=epsilon)


def _planes(x: Array) -> Array:
    """Return `(batch, channels, everything else)`."""
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
    kernels.normalization_kernels.channel_moments(planes, centre, spread)
    scale = (weight / np.sqrt(spread + weight.dtype.type(epsilon))).astype(weight.dtype, copy=False)
    out = np.empty_like(planes)
    kernels.normalization_kernels.channel_scale(planes, scale, wide(beta) - centre * scale, out)
    return tuple(a.astype(x.dtype, copy=False) for a in (out.reshape(x.shape), centre, spread))


def _batch_norm_gradient_of(
    g: Array, x: Array, gamma: Array, centre: Array, spread: Array, *, epsilon: float
) -> tuple[Array, ...]:
    planes, weight = _planes(x), wide(gamma)
    of_x, of_gamma, of_beta = np.empty_like(planes), np.empty_like(weight), np.empty_like(weight)
    kernels.normalization_kernels.batch_norm_gradient(
        _planes(g), planes, weight, wide(centre), wide(spread), of_x, of_gamma, of_beta, epsilon
    )
    found = (of_x.reshape(x.shape), of_gamma, of_beta)
    return tuple(array.astype(x.dtype, copy=False) for array in found)


def _compose_batch_norm_gradient(
    g: Tensor, x: Tensor, gamma: Tensor, centre: Tensor, spread: Tensor, *, epsilon: float
) -> tuple[Tensor, ...]:
    """Return the moments are functions of `x` here: that is how the second derivative finds them."""
    axes = (0, *range(2, x.ndim))
    shape: Shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    centred = x - mean(x, axes, keepdims=True)
    scale = divide(1.0, sqrt(mean(centred * centred, axes, keepdims=True) + epsilon))
    normal = centred * scale
    along = mean(g * normal, axes, keepdims=True)
    of_x = gamma.reshape(shape) * scale * (g - mean(g, axes, keepdims=True) - normal * along)
    return of_x, (g * normal).sum(axes), g.sum(axes)


def _batch_norm_rule(
    needs: Sequence[bool],
    g: Sequence[Tensor | None],
    out: Sequence[Tensor],
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    epsilon: float,
) -> Sequence[Tensor | None]:
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
    """Return `(y, mean, var)`: `x` `(batch, channels, ...)` normalized by the batch's own moments, and those moments.

    The population variance is returned; no gradient flows through the moments.

    Reference:
        Ioffe and Szegedy 2015, arXiv:1502.03167.
    """
    y, centre, spread = _batch_norm.several(x, gamma, beta, epsilon=epsilon)
    return y, centre.detach(), spread.detach()


def batch_norm_inference(
    x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5
) -> Tensor:
    """Return `x` `(batch, channels, ...)` normalized by given moments."""
    shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    scale = divide(gamma, sqrt(var + epsilon))
    return x * scale.reshape(shape) + (beta - mean * scale).reshape(shape)


def _by_channel(x: Tensor, gamma: Tensor | None, beta: Tensor | None) -> Tensor:
    """Return `gamma x + beta`, one of each for every channel (axis 1)."""
    shape: Shape = (1, -1, *(1,) * (x.ndim - 2))
    for vector in (gamma, beta):
        if vector is not None and vector.shape != x.shape[1:2]:
            raise ShapeError(f"normalization of {x.shape} expects one weight a channel (axis 1), got {vector.shape}")
    x = x if gamma is None else multiply(x, gamma.reshape(shape))
    return x if beta is None else x + beta.reshape(shape)


@method
def group_norm(
    x: Tensor, groups: int, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> Tensor:
    """Return each group of channels normalized to mean 0 and variance 1, for each example.

    Args:
        x: `(batch, channels, ...)`.
        groups: A divisor of the number of channels.
        gamma: `(channels)`.
        beta: `(channels)`.
        epsilon: Added to the variance.

    Reference:
        Wu and He 2018, arXiv:1803.08494.
    """
    x = as_real(x, "group_norm")
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"group_norm expects (batch, channels, ...), channels in multiples of {groups}, got {x.shape}")
    rows = x.reshape(x.shape[0] * groups, prod(x.shape[1:]) // groups)
    ones, zeros = full(rows.shape[1:], 1, x.dtype), full(rows.shape[1:], 0, x.dtype)
    return _by_channel(layer_norm(rows, ones, zeros, epsilon).reshape(x.shape), gamma, beta)


@method
def instance_norm(x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5) -> Tensor:
    """Return each channel of each example `(batch, channels, ...)` normalized to mean 0 and variance 1.

    Reference:
        Ulyanov et al. 2016, arXiv:1607.08022.
    """
    return group_norm(x, x.shape[1], gamma, beta, epsilon)


@method
def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """Return `x / (bias + alpha / size * sum of squares of neighbouring channels) ** beta`, for `(batch, channels,
    ...)`.

    The window begins `(size - 1) // 2` channels before the channel, as in ONNX.

    Reference:
        Krizhevsky et al. 2012, section 3.3.
    """
    x = as_real(x, "local_response_norm")
    if x.ndim < 2 or size < 1:
        raise ShapeError(f"local_response_norm expects (batch, channels, ...) and a size of 1 or more, got {x.shape}")
    before = (size - 1) // 2
    wide = pad(square(x), [(before, size - 1 - before) if axis == 1 else (0, 0) for axis in range(x.ndim)])
    total = narrow(wide, 1, 0, x.shape[1])
    for start in range(1, size):
        total = total + narrow(wide, 1, start, start + x.shape[1])
    return divide(x, power(multiply(total, alpha / size) + bias, beta))


@method
def normalize(x: Tensor, order: float = 2.0, axis: Axes = 1, epsilon: float = 1e-12) -> Tensor:
    """Return vectors along `axis` divided by their norm, or by `epsilon` where that is larger."""
    return divide(x, maximum(vector_norm(x, order, axis, keepdims=True), epsilon))


@method
def mean_variance_norm(x: Tensor, axis: Axes = (0, 2, 3), epsilon: float = 1e-9) -> Tensor:
    """Return `(x - mean) / (deviation + epsilon)` over `axis`: ONNX's MeanVarianceNormalization."""
    x = as_real(x, "mean_variance_norm")
    centred = subtract(x, mean(x, axis, keepdims=True))
    return divide(centred, safe_sqrt(mean(square(centred), axis, keepdims=True)) + epsilon)
