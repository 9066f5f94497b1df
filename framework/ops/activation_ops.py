"""Activation functions; softmax and its relatives work along one axis."""

import math
from collections.abc import Callable

import numpy as np

from .. import kernels
from ..dtype import Dtype, float32, float64
from ..primitive import Primitive
from ..specs import Spec, normalize_axis
from ..tensor import Array, Tensor, method
from .arithmetic_ops import multiply, subtract
from .operands import as_real, infer_same
from .transcendental import exp, tanh


def _infer_gradient(g: Spec, x: Spec, **_: object) -> Spec:
    return x


def _wide(x: Array) -> Array:
    """Return the array in a type the kernels compute in: 16-bit floats in float32."""
    return x if x.dtype in (float32, float64) else x.astype(float32)


def _flat(name: str) -> Callable[..., Array]:
    """Return an evaluation by the element-wise kernel of that name."""

    def evaluate(*arrays: Array) -> Array:
        dtype: Dtype = arrays[-1].dtype
        module = kernels.elementwise_kernels
        out = module.flat(getattr(module, name), *[_wide(x) for x in arrays])
        return out if out.dtype == dtype else out.astype(dtype)

    return evaluate


_relu: Primitive = Primitive(
    "relu",
    lambda x: np.maximum(x, x.dtype.type(0)),
    infer_same,
    (lambda g, out, x: _relu_gradient(g, out),),
    eager_vjp=lambda needs, g, out, x: (_relu_gradient.evaluate(g, out),),
    saves_output=True,
)
_relu_gradient: Primitive = Primitive(
    "relu_gradient", _flat("relu_gradient"), _infer_gradient, (lambda gg, _, g, y: _relu_gradient(gg, y), None)
)


@method
def relu(x: Tensor) -> Tensor:
    """Return `max(x, 0)`, with slope 0 at 0; NaN stays NaN."""
    return _relu(as_real(x, "relu"))


_sigmoid: Primitive = Primitive(
    "sigmoid",
    _flat("sigmoid"),
    infer_same,
    (lambda g, out, x: multiply(g, multiply(out, subtract(1.0, out))),),
    saves_output=True,
)


@method
def sigmoid(x: Tensor) -> Tensor:
    """Return `1 / (1 + e**-x)`."""
    return _sigmoid(as_real(x, "sigmoid"))


def _silu_curvature(x: Tensor) -> Tensor:
    s = sigmoid(x)
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


_silu: Primitive = Primitive(
    "silu",
    _flat("silu"),
    infer_same,
    (lambda g, _, x: _silu_gradient(g, x),),
    eager_vjp=lambda needs, g, _, x: (_silu_gradient.evaluate(g, x),),
)
_silu_gradient: Primitive = Primitive(
    "silu_gradient",
    _flat("silu_gradient"),
    _infer_gradient,
    (lambda gg, _, g, x: _silu_gradient(gg, x), lambda gg, _, g, x: gg * g * _silu_curvature(x)),
)


@method
def silu(x: Tensor) -> Tensor:
    """Return `x sigmoid(x)`, also known as swish."""
    return _silu(as_real(x, "silu"))


def _gelu_curvature(x: Tensor) -> Tensor:
    """Return the second derivative of `x (1 + tanh u) / 2`."""
    root, cubic = math.sqrt(2.0 / math.pi), 0.044715
    square = x * x
    t = tanh(root * x * (1.0 + cubic * square))
    bend = 1.0 - t * t
    slope = root * (1.0 + 3.0 * cubic * square)
    return bend * slope + 0.5 * x * bend * (6.0 * root * cubic * x - 2.0 * t * slope * slope)


def _gelu_exact_curvature(x: Tensor) -> Tensor:
    """Return the second derivative of `x Phi(x)`: `phi(x) (2 - x**2)`."""
    return exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi)) * (2.0 - x * x)


_gelu: Primitive = Primitive(
    "gelu",
    _flat("gelu"),
    infer_same,
    (lambda g, _, x: _gelu_gradient(g, x),),
    eager_vjp=lambda needs, g, _, x: (_gelu_gradient.evaluate(g, x),),
)
_gelu_gradient: Primitive = Primitive(
    "gelu_gradient",
    _flat("gelu_gradient"),
    _infer_gradient,
    (lambda gg, _, g, x: _gelu_gradient(gg, x), lambda gg, _, g, x: gg * g * _gelu_curvature(x)),
)
_gelu_exact: Primitive = Primitive(
    "gelu_exact", _flat("gelu_exact"), infer_same, (lambda g, _, x: _gelu_exact_gradient(g, x),)
)
_gelu_exact_gradient: Primitive = Primitive(
    "gelu_exact_gradient",
    _flat("gelu_exact_gradient"),
    _infer_gradient,
    (lambda gg, _, g, x: _gelu_exact_gradient(gg, x), lambda gg, _, g, x: gg * g * _gelu_exact_curvature(x)),
)


@method
def gelu(x: Tensor, approximate: bool = True) -> Tensor:
    """Return `x Phi(x)`; approximated by a tanh as in the paper (and GPT), or exact.

    Reference:
        Hendrycks and Gimpel 2016, arXiv:1606.08415.
    """
    x = as_real(x, "gelu")
    return _gelu(x) if approximate else _gelu_exact(x)


def _rows(x: Array) -> Array:
    return np.ascontiguousarray(_wide(x)).reshape(-1, x.shape[-1] if x.ndim else 1)


def _softmax_of(x: Array, *, scale: float, causal: bool) -> Array:
    rows = _rows(x)
    out = np.empty_like(rows)
    kernels.softmax_kernels.softmax(rows, out, float(scale), x.shape[-2] if causal else 0)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _softmax_gradient_of(g: Array, y: Array, *, scale: float, causal: bool) -> Array:
    rows = _rows(y)
    out = np.empty_like(rows)
    kernels.softmax_kernels.softmax_gradient(_rows(g), rows, out, float(scale), y.shape[-2] if causal else 0)
    return out.reshape(y.shape).astype(y.dtype, copy=False)


def _softmax_bend(gg: Tensor, _: None, g: Tensor, y: Tensor, *, scale: float, causal: bool) -> Tensor:
    total = (g * y).sum(-1, keepdims=True)
    return scale * (gg * (g - total) - g * (gg * y).sum(-1, keepdims=True))


_softmax: Primitive = Primitive(
    "softmax",
    _softmax_of,
    infer_same,
    (lambda g, out, x, *, scale, causal: _softmax_gradient(g, out, scale=scale, causal=causal),),
    saves_output=True,
)
_softmax_gradient: Primitive = Primitive(
    "softmax_gradient",
    _softmax_gradient_of,
    _infer_gradient,
    (
        lambda gg, _, g, y, *, scale, causal: _softmax_gradient(gg, y, scale=scale, causal=causal),
        _softmax_bend,
    ),
)


@method
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return `e**x / sum(e**x)` along `axis`."""
    x = as_real(x, "softmax")
    if normalize_axis(axis, x.ndim) != x.ndim - 1:
        return softmax(x.swapaxes(axis, -1)).swapaxes(axis, -1)
    return _softmax(x, scale=1.0, causal=False)


@method
def attention_weights(scores: Tensor, scale: float = 1.0, causal: bool = False) -> Tensor:
    """Return `softmax(scale scores)` along the last axis of `(..., queries, keys)`; causal hides the keys after the
    query.

    With more keys than queries the queries are the last ones.
    """
    return _softmax(as_real(scores, "attention_weights"), scale=scale, causal=causal)


def _log_softmax_of(x: Array) -> Array:
    rows = _rows(x)
    out = np.empty_like(rows)
    kernels.softmax_kernels.log_softmax(rows, out)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


_log_softmax: Primitive = Primitive(
    "log_softmax",
    _log_softmax_of,
    infer_same,
    (lambda g, out, x: g - exp(out) * g.sum(-1, keepdims=True),),
    saves_output=True,
)


@method
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return `x - log(sum(e**x))` along `axis`."""
    x = as_real(x, "log_softmax")
    if normalize_axis(axis, x.ndim) != x.ndim - 1:
        return log_softmax(x.swapaxes(axis, -1)).swapaxes(axis, -1)
    return _log_softmax(x)
