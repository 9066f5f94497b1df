"""Activation functions."""

import math

from ... import ops
from ...tensor import Tensor
from ..call import Call
from ..registry import operator


@operator("Relu")
def relu(call: Call, x: Tensor) -> Tensor:
    """`max(x, 0)`, of integers too."""
    return ops.relu(x) if x.dtype.kind not in "iu" else ops.maximum(x, 0)


@operator("LeakyRelu")
def leaky_relu(call: Call, x: Tensor) -> Tensor:
    """`x` where it is not negative, else `alpha x`."""
    return ops.leaky_relu(x, call.get("alpha", 0.01))


@operator("PRelu")
def prelu(call: Call, x: Tensor, slope: Tensor) -> Tensor:
    """`x` where it is not negative, else `slope x`."""
    return ops.prelu(x, slope)


@operator("Elu")
def elu(call: Call, x: Tensor) -> Tensor:
    """`x` where positive, else `alpha (e**x - 1)`."""
    return ops.elu(x, call.get("alpha", 1.0))


@operator("Selu")
def selu(call: Call, x: Tensor) -> Tensor:
    """`gamma` times: `x` where positive, else `alpha (e**x - 1)`."""
    alpha, gamma = call.get("alpha", 1.67326319217681884765625), call.get("gamma", 1.05070102214813232421875)
    return ops.selu(x, alpha, gamma)


@operator("Celu")
def celu(call: Call, x: Tensor) -> Tensor:
    """`max(0, x) + min(0, alpha (e**(x / alpha) - 1))`."""
    return ops.celu(x, call.get("alpha", 1.0))


@operator("Softsign")
def softsign(call: Call, x: Tensor) -> Tensor:
    """`x / (1 + |x|)`."""
    return ops.softsign(x)


@operator("HardSigmoid")
def hard_sigmoid(call: Call, x: Tensor) -> Tensor:
    """`alpha x + beta`, from 0 to 1."""
    return ops.hardsigmoid(x, call.get("alpha", 0.2), call.get("beta", 0.5))


@operator("HardSwish")
def hard_swish(call: Call, x: Tensor) -> Tensor:
    """`x` times `x / 6 + 1 / 2`, from 0 to 1."""
    return ops.hardswish(x)


@operator("Mish")
def mish(call: Call, x: Tensor) -> Tensor:
    """`x tanh(softplus(x))`."""
    return ops.mish(x)


@operator("Swish")
def swish(call: Call, x: Tensor) -> Tensor:
    """`x sigmoid(alpha x)`."""
    alpha = call.get("alpha", 1.0)
    return ops.silu(x) if alpha == 1.0 else x * ops.sigmoid(x * alpha)


@operator("Gelu")
def gelu(call: Call, x: Tensor) -> Tensor:
    """`x Phi(x)`, exact or approximated by a tanh."""
    return ops.gelu(x, approximate=call.get("approximate", "none") == "tanh")


@operator("ThresholdedRelu")
def thresholded_relu(call: Call, x: Tensor) -> Tensor:
    """`x` where it is above `alpha`, else 0."""
    return ops.thresholded_relu(x, call.get("alpha", 1.0))


@operator("Shrink")
def shrink(call: Call, x: Tensor) -> Tensor:
    """`x` moved towards 0 by `bias` where it is farther from 0 than `lambd`, else 0."""
    bias, edge = call.get("bias", 0.0), call.get("lambd", 0.5)
    number = int if x.dtype.kind in "iu" and float(bias).is_integer() else float
    below, above = x + number(bias), x - number(bias)
    found = ops.where(ops.less(x, -edge), below, ops.where(ops.greater(x, edge), above, ops.zeros_like(x)))
    return ops.cast(found, x.dtype)


def _flat(x: Tensor, axis: int) -> Tensor:
    return x.reshape(math.prod(x.shape[: axis % max(x.ndim, 1)]), -1)


@operator("Softmax", since=13)
def softmax(call: Call, x: Tensor) -> Tensor:
    """`e**x` over its sum along an axis."""
    return ops.softmax(x, call.get("axis", -1))


@operator("Softmax")
def softmax_of_rest(call: Call, x: Tensor) -> Tensor:
    """`e**x` over its sum along all axes from one on."""
    return ops.softmax(_flat(x, call.get("axis", 1)), -1).reshape(x.shape)


@operator("LogSoftmax", since=13)
def log_softmax(call: Call, x: Tensor) -> Tensor:
    """`x - log(sum(e**x))` along an axis."""
    return ops.log_softmax(x, call.get("axis", -1))


@operator("LogSoftmax")
def log_softmax_of_rest(call: Call, x: Tensor) -> Tensor:
    """`x - log(sum(e**x))` along all axes from one on."""
    return ops.log_softmax(_flat(x, call.get("axis", 1)), -1).reshape(x.shape)


@operator("Hardmax", since=13)
def hardmax(call: Call, x: Tensor) -> Tensor:
    """1 at the first largest element along an axis, else 0."""
    axis = call.get("axis", -1) % x.ndim
    return _first_largest(x, axis)


@operator("Hardmax")
def hardmax_of_rest(call: Call, x: Tensor) -> Tensor:
    """1 at the first largest element along all axes from one on, else 0."""
    return _first_largest(_flat(x, call.get("axis", 1)), 1).reshape(x.shape)


def _first_largest(x: Tensor, axis: int) -> Tensor:
    places = ops.expand_dims(ops.argmax(x, axis), axis)
    numbers = ops.arange(x.shape[axis]).reshape(*(-1 if i == axis else 1 for i in range(x.ndim)))
    return ops.cast(ops.equal(places, numbers), x.dtype)
