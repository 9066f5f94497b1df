"""Arithmetic of Python numbers that are not known yet: what Python would compute, as nodes of the graph.

Integers are int64 (Python's do not end there), floats float64. Division by zero gives infinity or NaN where Python
raises ZeroDivisionError: a graph does not look at values.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...dtype import promote_scalar
from ...ops.operands import cast_to
from ...tensor import Tensor
from ..traced import CaptureError
from .values import NUMBER_DTYPES, NUMBER_OPERATORS, TracedNumber, as_number, kind_of, number_tensor

__all__ = ["compute", "truth", "unary"]

_SAMPLES: dict[type, Any] = {bool: False, int: 0, float: 0.0}

_ARITHMETIC: dict[str, Callable[[Any, Any], Tensor]] = {
    "+": ops.add,
    "-": ops.subtract,
    "*": ops.multiply,
    "/": ops.divide,
    "//": ops.floor_divide,
    "%": ops.remainder,
    "**": ops.power,
}
_BITS: dict[str, Callable[[Any, Any], Tensor]] = {
    "&": ops.bitwise_and,
    "|": ops.bitwise_or,
    "^": ops.bitwise_xor,
    "<<": ops.left_shift,
    ">>": ops.right_shift,
}
_LOGIC: dict[str, Callable[[Any, Any], Tensor]] = {"&": ops.logical_and, "|": ops.logical_or, "^": ops.not_equal}
_COMPARISONS: dict[str, Callable[[Any, Any], Tensor]] = {
    "<": ops.less,
    "<=": ops.less_equal,
    ">": ops.greater,
    ">=": ops.greater_equal,
    "==": ops.equal,
    "!=": ops.not_equal,
}
#: What Python itself does for each sign, where nothing is traced.
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def compute(sign: str, a: Any, b: Any) -> Any:
    """`a sign b` for values of any kind, as Python would have it."""
    if not isinstance(a, TracedNumber) and not isinstance(b, TracedNumber):
        return PYTHON[sign](a, b)
    if isinstance(a, Tensor) and not isinstance(a, TracedNumber):
        return PYTHON[sign](*_beside(a, b))
    if isinstance(b, Tensor) and not isinstance(b, TracedNumber):
        b, a = _beside(b, a)
        return PYTHON[sign](a, b)
    if kind_of(a) is None or kind_of(b) is None:
        if sign in ("==", "!="):
            return sign == "!="
        who = type(b if isinstance(a, TracedNumber) else a).__name__
        raise CaptureError(f"'{sign}' between a traced number and {who} cannot become part of a graph")
    return _of_numbers(sign, a, b)


def _beside(x: Tensor, number: Any) -> tuple[Tensor, Tensor]:
    """A tensor and a number that takes its dtype."""
    kind = kind_of(number)
    if kind is None:
        raise CaptureError(f"an operand must be a tensor or a number, got {type(number).__name__}")
    dtype = promote_scalar(x.dtype, _SAMPLES[kind])
    return cast_to(x, dtype), number_tensor(number, dtype)


def _of_numbers(sign: str, a: Any, b: Any) -> Any:
    kinds = {kind_of(a), kind_of(b)}
    common = float if float in kinds else int
    if sign in _COMPARISONS:
        dtype = NUMBER_DTYPES[common]
        return as_number(_COMPARISONS[sign](number_tensor(a, dtype), number_tensor(b, dtype)))
    if sign in _BITS:
        if kinds == {bool} and sign in _LOGIC:
            dtype = NUMBER_DTYPES[bool]
            return as_number(_LOGIC[sign](number_tensor(a, dtype), number_tensor(b, dtype)))
        function = _BITS[sign]
    else:
        function = _ARITHMETIC[sign]
        if sign == "/" or (sign == "**" and not (type(b) is int and b >= 0)):
            common = float
    dtype = NUMBER_DTYPES[common]
    return as_number(function(number_tensor(a, dtype), number_tensor(b, dtype)))


def unary(sign: str, x: Any) -> Any:
    """`sign x` for a traced number: +, - or ~."""
    kind = int if kind_of(x) is bool else kind_of(x)
    assert kind is not None
    tensor = number_tensor(x, NUMBER_DTYPES[kind])
    if sign == "~":
        return as_number(ops.bitwise_not(tensor))
    return as_number(ops.negative(tensor)) if sign == "-" else as_number(tensor)


def truth(x: Any) -> TracedNumber:
    """Whether a traced tensor of one element is true (not zero), as a traced bool."""
    if x.size != 1:
        raise CaptureError(
            f"the truth of a tensor of shape {x.shape} is not defined; a condition needs one element: "
            f"reduce it with all() or any() of ops, or use ops.where"
        )
    if x.shape:
        x = x.reshape(())
    if isinstance(x, TracedNumber) and x.kind is bool:
        return x
    return as_number(cast_to(x, np.dtype(np.bool_)) if x.dtype.kind == "b" else ops.not_equal(x, 0))


for _sign in ("+", "-", "*", "/"):
    NUMBER_OPERATORS[_sign] = partial(compute, _sign)
