"""Element-wise operators: functions, arithmetic, comparisons, logic, activations."""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor
from ..operator_call import Elements, OperatorCall, Value, operator

#: ONNX name to the engine's.
_SAME = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bitwise_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Neg": "negative",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}


def _register_unary(onnx_name: str, name: str) -> None:
    function: Callable[[Tensor], Tensor] = getattr(ops, name)

    def run(call: OperatorCall, x: Tensor) -> Tensor:
        return function(x)

    operator(onnx_name)(run)


for _onnx_name, _name in _SAME.items():
    _register_unary(_onnx_name, _name)


@operator("Identity")
def identity(call: OperatorCall, x: Value) -> Value:
    """Return the same value, whatever it is."""
    return x


@operator("IsInf")
def is_inf(call: OperatorCall, x: Tensor) -> Tensor:
    """Return whether an element is infinite, of the signs asked for."""
    return ops.isinf(x, positive=bool(call.get("detect_positive", 1)), negative=bool(call.get("detect_negative", 1)))


def _aligned(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return `b` with the axes that opset versions before 7 give in attributes."""
    if not call.get("broadcast", 0) or "axis" not in call.attributes:
        return b
    axis = int(call.get("axis")) % a.ndim
    return b.reshape(*b.shape, *(1,) * (a.ndim - axis - b.ndim))


@operator("Add")
def add(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return `a + b`."""
    return ops.add(a, _aligned(call, a, b))


@operator("Sub")
def subtract(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return `a - b`."""
    return ops.subtract(a, _aligned(call, a, b))


@operator("Mul")
def multiply(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return `a * b`."""
    return ops.multiply(a, _aligned(call, a, b))


@operator("Div")
def divide(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return `a / b`; integers are divided towards zero."""
    b = _aligned(call, a, b)
    if a.dtype.kind not in "iu":
        return ops.divide(a, b)
    quotient = ops.floor_divide(a, b)
    if a.dtype.kind == "u":
        return quotient
    inexact = ops.not_equal(quotient * b, a)
    opposite = ops.not_equal(ops.less(a, 0), ops.less(b, 0))
    return quotient + ops.cast(ops.logical_and(inexact, opposite), a.dtype)


@operator("Mod")
def modulo(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return the rest of a division: with the sign of the divisor, or with `fmod` that of the dividend."""
    return ops.fmod(a, b) if call.get("fmod", 0) else ops.remainder(a, b)


@operator("Pow")
def power(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return `a ** b`, in the type of `a`."""
    b = _aligned(call, a, b)
    if a.dtype == b.dtype:
        return ops.power(a, b)
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return ops.power(a, ops.cast(b, a.dtype))
    if a.dtype.kind in "iu":
        return ops.cast(ops.power(ops.cast(a, "float64"), ops.cast(b, "float64")), a.dtype)
    return ops.power(a, ops.cast(b, a.dtype))


@operator("Sum")
def sum_all(call: OperatorCall, *parts: Tensor) -> Tensor:
    """Return the sum of all inputs."""
    return reduce(ops.add, parts)


@operator("Mean")
def mean_all(call: OperatorCall, *parts: Tensor) -> Tensor:
    """Return the mean of all inputs."""
    return ops.divide(reduce(ops.add, parts), float(len(parts)))


@operator("Max")
def maximum(call: OperatorCall, *parts: Tensor) -> Tensor:
    """Return the largest of all inputs."""
    return reduce(ops.maximum, parts)


@operator("Min")
def minimum(call: OperatorCall, *parts: Tensor) -> Tensor:
    """Return the smallest of all inputs."""
    return reduce(ops.minimum, parts)


@operator("Clip", since=11)
def clip(call: OperatorCall, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Return the elements within bounds; where they contradict each other, the upper one."""
    if low is not None:
        x = ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@operator("Clip")
def clip_to_attributes(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the elements within the bounds that the attributes give."""
    return ops.clip(x, call.get("min"), call.get("max"))


@operator("BitShift")
def bit_shift(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return the bits of `a` moved by `b` places."""
    return ops.left_shift(a, b) if call.get("direction") == "LEFT" else ops.right_shift(a, b)


@operator("BitwiseAnd")
def bitwise_and(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return the bits that both have."""
    return ops.bitwise_and(a, b)


@operator("BitwiseOr")
def bitwise_or(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return the bits that one of them has."""
    return ops.bitwise_or(a, b)


@operator("BitwiseXor")
def bitwise_xor(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
    """Return the bits that exactly one of them has."""
    return ops.bitwise_xor(a, b)


_PAIRS = {
    "And": "logical_and",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Or": "logical_or",
    "Xor": "logical_xor",
}


def _register_comparison(onnx_name: str, name: str) -> None:
    function: Callable[[Tensor, Tensor], Tensor] = getattr(ops, name)

    def run(call: OperatorCall, a: Tensor, b: Tensor) -> Tensor:
        result: Tensor = function(a, b)
        return result

    operator(onnx_name)(run)


for _onnx_name, _name in _PAIRS.items():
    _register_comparison(_onnx_name, _name)


@operator("Equal")
def equal(call: OperatorCall, a: Elements, b: Any) -> Tensor:
    """Return whether elements are equal; words too."""
    if isinstance(a, np.ndarray):
        return Tensor(np.asarray(a == b, np.bool_))
    return ops.equal(a, b)


@operator("Where")
def where(call: OperatorCall, condition: Tensor, a: Elements, b: Any) -> Elements:
    """Return `a` where the condition holds, else `b`; of words too."""
    if isinstance(a, np.ndarray):
        return np.where(condition.numpy(), a, b)
    return ops.where(condition, a, b)


@operator("Relu")
def relu(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `max(x, 0)`, of integers too."""
    return ops.relu(x) if x.dtype.kind not in "iu" else ops.maximum(x, 0)


@operator("LeakyRelu")
def leaky_relu(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x` where it is not negative, else `alpha x`."""
    return ops.leaky_relu(x, call.get("alpha", 0.01))


@operator("PRelu")
def prelu(call: OperatorCall, x: Tensor, slope: Tensor) -> Tensor:
    """Return `x` where it is not negative, else `slope x`."""
    return ops.prelu(x, slope)


@operator("Elu")
def elu(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x` where positive, else `alpha (e**x - 1)`."""
    return ops.elu(x, call.get("alpha", 1.0))


@operator("Selu")
def selu(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `gamma` times: `x` where positive, else `alpha (e**x - 1)`."""
    alpha, gamma = call.get("alpha", 1.67326319217681884765625), call.get("gamma", 1.05070102214813232421875)
    return ops.selu(x, alpha, gamma)


@operator("Celu")
def celu(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `max(0, x) + min(0, alpha (e**(x / alpha) - 1))`."""
    return ops.celu(x, call.get("alpha", 1.0))


@operator("Softsign")
def softsign(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x / (1 + |x|)`."""
    return ops.softsign(x)


@operator("HardSigmoid")
def hard_sigmoid(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `alpha x + beta`, from 0 to 1."""
    return ops.hardsigmoid(x, call.get("alpha", 0.2), call.get("beta", 0.5))


@operator("HardSwish")
def hard_swish(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x` times `x / 6 + 1 / 2`, from 0 to 1."""
    return ops.hardswish(x)


@operator("Mish")
def mish(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x tanh(softplus(x))`."""
    return ops.mish(x)


@operator("Swish")
def swish(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x sigmoid(alpha x)`."""
    alpha = call.get("alpha", 1.0)
    return ops.silu(x) if alpha == 1.0 else x * ops.sigmoid(x * alpha)


@operator("Gelu")
def gelu(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x Phi(x)`, exact or approximated by a tanh."""
    return ops.gelu(x, approximate=call.get("approximate", "none") == "tanh")


@operator("ThresholdedRelu")
def thresholded_relu(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x` where it is above `alpha`, else 0."""
    return ops.thresholded_relu(x, call.get("alpha", 1.0))


@operator("Shrink")
def shrink(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x` moved towards 0 by `bias` where it is farther from 0 than `lambd`, else 0."""
    bias, edge = call.get("bias", 0.0), call.get("lambd", 0.5)
    number = int if x.dtype.kind in "iu" and float(bias).is_integer() else float
    below, above = x + number(bias), x - number(bias)
    found = ops.where(ops.less(x, -edge), below, ops.where(ops.greater(x, edge), above, ops.zeros_like(x)))
    return ops.cast(found, x.dtype)


def _flat(x: Tensor, axis: int) -> Tensor:
    return x.reshape(math.prod(x.shape[: axis % max(x.ndim, 1)]), -1)


@operator("Softmax", since=13)
def softmax(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `e**x` over its sum along an axis."""
    return ops.softmax(x, call.get("axis", -1))


@operator("Softmax")
def softmax_of_rest(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `e**x` over its sum along all axes from one on."""
    return ops.softmax(_flat(x, call.get("axis", 1)), -1).reshape(x.shape)


@operator("LogSoftmax", since=13)
def log_softmax(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x - log(sum(e**x))` along an axis."""
    return ops.log_softmax(x, call.get("axis", -1))


@operator("LogSoftmax")
def log_softmax_of_rest(call: OperatorCall, x: Tensor) -> Tensor:
    """Return `x - log(sum(e**x))` along all axes from one on."""
    return ops.log_softmax(_flat(x, call.get("axis", 1)), -1).reshape(x.shape)


@operator("Hardmax", since=13)
def hardmax(call: OperatorCall, x: Tensor) -> Tensor:
    """Return 1 at the first largest element along an axis, else 0."""
    axis = call.get("axis", -1) % x.ndim
    return _first_largest(x, axis)


@operator("Hardmax")
def hardmax_of_rest(call: OperatorCall, x: Tensor) -> Tensor:
    """Return 1 at the first largest element along all axes from one on, else 0."""
    return _first_largest(_flat(x, call.get("axis", 1)), 1).reshape(x.shape)


def _first_largest(x: Tensor, axis: int) -> Tensor:
    places = ops.expand_dims(ops.argmax(x, axis), axis)
    numbers = ops.arange(x.shape[axis]).reshape(*(-1 if i == axis else 1 for i in range(x.ndim)))
    return ops.cast(ops.equal(places, numbers), x.dtype)
