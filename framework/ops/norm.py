"""Normalization over the last axis."""

import numpy as np

from .. import kernels
from ..dtype import float32, float64
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor
from .arithmetic import divide
from .fused import derived_from
from .math import sqrt
from .reduce import mean, sum_to


def wide(x: Array) -> Array:
    """The array in a type the kernels compute in: 16-bit floats in float32."""
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
    kernels.normalization.layer_norm(rows, wide(gamma), wide(beta), out, epsilon)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _layer_norm_gradient_of(g: Array, x: Array, gamma: Array, *, epsilon: float) -> tuple[Array, ...]:
    rows, weight = _rows(x), wide(gamma)
    of_x, of_gamma, of_beta = np.empty_like(rows), np.empty_like(weight), np.empty_like(weight)
    kernels.normalization.layer_norm_gradient(_rows(g), rows, weight, of_x, of_gamma, of_beta, epsilon)
    found = (of_x.reshape(x.shape), of_gamma, of_beta)
    return tuple(array.astype(x.dtype, copy=False) for array in found)


def spec_of_array(x: Array) -> Spec:
    """The spec of an array."""
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
    """`(x - mean) / sqrt(var + epsilon) gamma + beta` over the last axis.

    Reference:
        Ba et al. 2016, arXiv:1607.06450.
    """
    return _layer_norm(x, gamma, beta, epsilon=epsilon)


def _rms_norm_of(x: Array, gamma: Array, *, epsilon: float) -> Array:
    _check_width(spec_of_array(x), spec_of_array(gamma))
    rows = _rows(x)
    out = np.empty_like(rows)
    kernels.normalization.rms_norm(rows, wide(gamma), out, epsilon)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _rms_norm_gradient_of(g: Array, x: Array, gamma: Array, *, epsilon: float) -> tuple[Array, ...]:
    rows, weight = _rows(x), wide(gamma)
    of_x, of_gamma = np.empty_like(rows), np.empty_like(weight)
    kernels.normalization.rms_norm_gradient(_rows(g), rows, weight, of_x, of_gamma, epsilon)
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
    """`x / sqrt(mean(x**2) + epsilon) gamma` over the last axis.

    Reference:
        Zhang and Sennrich 2019, arXiv:1910.07467.
    """
    return _rms_norm(x, gamma, epsilon=epsilon)
