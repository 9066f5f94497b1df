"""Activations with a bend: linear on one side, something else on the other.

Each is made of element-wise primitives, so that it has derivatives of any order and fuses when compiled.
"""

import numpy as np

from ..primitive import Primitive
from ..tensor import Array, Tensor, TensorLike, method
from .activation_ops import relu, sigmoid
from .arithmetic_ops import abs, divide, multiply, negative, sign, subtract
from .layout import halves
from .logic_ops import where
from .operands import as_real, infer_same
from .transcendental import expm1, tanh

# Klambauer et al. 2017, arXiv:1706.02515, eq. 14: the fixed point of mean 0 and variance 1.
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


@method
def leaky_relu(x: Tensor, slope: float = 0.2) -> Tensor:
    """Return `x` where positive, else `slope x`."""
    x = as_real(x, "leaky_relu")
    return where(x > 0.0, x, multiply(x, slope))


@method
def prelu(x: Tensor, slope: TensorLike) -> Tensor:
    """Return `x` where positive, else `slope x`, with a slope that is learned: broadcast with `x`.

    Reference:
        He et al. 2015, arXiv:1502.01852.
    """
    x = as_real(x, "prelu")
    return where(x > 0.0, x, multiply(x, slope))


@method
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` where positive, else `alpha (e**x - 1)`.

    Reference:
        Clevert et al. 2015, arXiv:1511.07289.
    """
    x = as_real(x, "elu")
    return where(x > 0.0, x, multiply(expm1(_at_most(x, 0.0)), alpha))


def _at_most(x: Tensor, bound: float) -> Tensor:
    """Return `min(x, bound)` with the whole gradient at equality: what a guard against overflow wants."""
    return where(x <= bound, x, bound)


@method
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` where positive, else `alpha (e**(x / alpha) - 1)`: smooth for every alpha.

    Reference:
        Barron 2017, arXiv:1704.07483.
    """
    x = as_real(x, "celu")
    return where(x > 0.0, x, multiply(expm1(_at_most(multiply(x, 1.0 / alpha), 0.0)), alpha))


@method
def selu(x: Tensor, alpha: float = _SELU_ALPHA, scale: float = _SELU_SCALE) -> Tensor:
    """`scale elu(x, alpha)`, by default with the constants that normalize by themselves.

    Reference:
        Klambauer et al. 2017, arXiv:1706.02515.
    """
    return multiply(elu(x, alpha), scale)


@method
def relu6(x: Tensor) -> Tensor:
    """Return `min(max(x, 0), 6)`, with slope 0 at both bends."""
    x = relu(x)
    return where(x < 6.0, x, 6.0)


@method
def hardtanh(x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    """Return `x` between the bounds, else the bound; slope 0 at both."""
    x = as_real(x, "hardtanh")
    return where(x <= low, low, where(x >= high, high, x))


@method
def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` above `alpha`, else 0."""
    return threshold(x, alpha, 0.0)


@method
def threshold(x: Tensor, bound: float, value: float) -> Tensor:
    """Return `x` above the bound, else `value`."""
    x = as_real(x, "threshold")
    return where(x > bound, x, value)


@method
def hardshrink(x: Tensor, bound: float = 0.5) -> Tensor:
    """Return `x` where `|x|` is above the bound, else 0."""
    x = as_real(x, "hardshrink")
    return where(abs(x) > bound, x, 0.0)


@method
def softshrink(x: Tensor, bound: float = 0.5) -> Tensor:
    """Return `x` moved towards 0 by the bound, and not beyond."""
    x = as_real(x, "softshrink")
    return where(abs(x) > bound, subtract(x, multiply(sign(x), bound)), 0.0)


@method
def shrink(x: Tensor, bound: float = 0.5, bias: float = 0.0) -> Tensor:
    """Return `x + bias` below `-bound`, `x - bias` above `bound`, 0 between them."""
    return where(x < -bound, x + bias, where(x > bound, x - bias, 0))


@method
def tanhshrink(x: Tensor) -> Tensor:
    """Return `x - tanh(x)`."""
    return subtract(x, tanh(x))


@method
def hardsigmoid(x: Tensor, slope: float = 1.0 / 6.0, offset: float = 0.5) -> Tensor:
    """Return `slope x + offset`, cut to [0, 1]; slope 0 at both bends."""
    return hardtanh(multiply(as_real(x, "hardsigmoid"), slope) + offset, 0.0, 1.0)


@method
def hardswish(x: Tensor) -> Tensor:
    """Return `x hardsigmoid(x)`.

    Reference:
        Howard et al. 2019, arXiv:1905.02244, section 5.2.
    """
    return multiply(x, hardsigmoid(x))


@method
def softsign(x: Tensor) -> Tensor:
    """Return `x / (1 + |x|)`."""
    x = as_real(x, "softsign")
    return divide(x, abs(x) + 1.0)


def _softplus_of(x: Array) -> Array:
    bounded: Array = np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))
    return bounded


_softplus: Primitive = Primitive("softplus", _softplus_of, infer_same, (lambda g, _, x: multiply(g, sigmoid(x)),))


@method
def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    """`log(1 + e**(beta x)) / beta`, without overflow."""
    x = as_real(x, "softplus")
    return _softplus(x) if beta == 1.0 else multiply(_softplus(multiply(x, beta)), 1.0 / beta)


@method
def logsigmoid(x: Tensor) -> Tensor:
    """`log(1 / (1 + e**-x))`, without overflow."""
    return negative(softplus(negative(as_real(x, "logsigmoid"))))


@method
def mish(x: Tensor) -> Tensor:
    """Return `x tanh(log(1 + e**x))`.

    Reference:
        Misra 2019, arXiv:1908.08681.
    """
    x = as_real(x, "mish")
    return multiply(x, tanh(softplus(x)))


@method
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Return the first half along `axis` times the sigmoid of the second.

    Reference:
        Dauphin et al. 2016, arXiv:1612.08083.
    """
    first, second = halves(as_real(x, "glu"), axis)
    return multiply(first, sigmoid(second))


@method
def swiglu(x: Tensor, axis: int = -1, alpha: float = 1.0) -> Tensor:
    """Return the first half along `axis`, times `sigmoid(alpha ...)` of itself, times the second half.

    Reference:
        Shazeer 2020, arXiv:2002.05202.
    """
    first, second = halves(as_real(x, "swiglu"), axis)
    return multiply(multiply(first, sigmoid(multiply(first, alpha) if alpha != 1.0 else first)), second)
