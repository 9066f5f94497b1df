"""Arithmetic on two tensors or several, with the broadcasting of NumPy."""

from functools import reduce
from typing import Any

from ... import ops
from ...tensor import Tensor
from ..call import Call
from ..registry import operator


def _aligned(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`b` with the axes that opset versions before 7 give in attributes."""
    if not call.get("broadcast", 0) or "axis" not in call.attributes:
        return b
    axis = int(call.get("axis")) % a.ndim
    return b.reshape(*b.shape, *(1,) * (a.ndim - axis - b.ndim))


@operator("Add")
def add(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`a + b`."""
    return ops.add(a, _aligned(call, a, b))


@operator("Sub")
def subtract(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`a - b`."""
    return ops.subtract(a, _aligned(call, a, b))


@operator("Mul")
def multiply(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`a * b`."""
    return ops.multiply(a, _aligned(call, a, b))


@operator("Div")
def divide(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`a / b`; integers are divided towards zero."""
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
def modulo(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The rest of a division: with the sign of the divisor, or with `fmod` that of the dividend."""
    return ops.fmod(a, b) if call.get("fmod", 0) else ops.remainder(a, b)


@operator("Pow")
def power(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`a ** b`, in the type of `a`."""
    b = _aligned(call, a, b)
    if a.dtype == b.dtype:
        return ops.power(a, b)
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return ops.power(a, ops.cast(b, a.dtype))
    if a.dtype.kind in "iu":
        return ops.cast(ops.power(ops.cast(a, "float64"), ops.cast(b, "float64")), a.dtype)
    return ops.power(a, ops.cast(b, a.dtype))


@operator("Sum")
def sum_all(call: Call, *parts: Tensor) -> Tensor:
    """The sum of all inputs."""
    return reduce(ops.add, parts)


@operator("Mean")
def mean_all(call: Call, *parts: Tensor) -> Tensor:
    """The mean of all inputs."""
    return ops.divide(reduce(ops.add, parts), float(len(parts)))


@operator("Max")
def maximum(call: Call, *parts: Tensor) -> Tensor:
    """The largest of all inputs."""
    return reduce(ops.maximum, parts)


@operator("Min")
def minimum(call: Call, *parts: Tensor) -> Tensor:
    """The smallest of all inputs."""
    return reduce(ops.minimum, parts)


@operator("Clip", since=11)
def clip(call: Call, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """The elements within bounds; where they contradict each other, the upper one."""
    if low is not None:
        x = ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@operator("Clip")
def clip_to_attributes(call: Call, x: Tensor) -> Tensor:
    """The elements within the bounds that the attributes give."""
    return ops.clip(x, call.get("min"), call.get("max"))


@operator("BitShift")
def bit_shift(call: Call, a: Tensor, b: Tensor) -> Any:
    """The bits of `a` moved by `b` places."""
    return ops.left_shift(a, b) if call.get("direction") == "LEFT" else ops.right_shift(a, b)


@operator("BitwiseAnd")
def bitwise_and(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The bits that both have."""
    return ops.bitwise_and(a, b)


@operator("BitwiseOr")
def bitwise_or(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The bits that one of them has."""
    return ops.bitwise_or(a, b)


@operator("BitwiseXor")
def bitwise_xor(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """The bits that exactly one of them has."""
    return ops.bitwise_xor(a, b)
