"""Python values that are not known yet: numbers as tensors without axes and their arithmetic, text, iterables, gaps.

Integers are int64 (Python's do not end there), floats float64. Division by zero gives infinity or NaN where Python
raises ZeroDivisionError: a graph does not look at values.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np

from ... import ops
from ...dtype import Dtype, Number, promote_scalar
from ...ops import operands
from ...ops.operands import cast_to
from ...tensor import Array, Tensor, wrap
from ..traced import CaptureError, TracedTensor

#: A value of the user's program: anything. Who looks into one asks first what it is.
Value: TypeAlias = object

__all__ = [
    "Gap",
    "TracedIterable",
    "TracedNumber",
    "TracedText",
    "Value",
    "as_number",
    "as_strong",
    "as_weak",
    "compute",
    "kind_of",
    "number_tensor",
    "truth",
    "unary",
]


class TracedText:
    """Words with traced values among them: for `print` and messages, where it is put together at run time."""

    __slots__ = ("parts",)

    def __init__(self, parts: "list[str | tuple[Value, str]]") -> None:
        self.parts = parts

    def __str__(self) -> str:
        raise CaptureError(
            "an f-string with a traced value in it has no text yet; it can only be printed, or be a message"
        )


@dataclass(frozen=True, slots=True)
class TracedIterable:
    """What a loop over traced values goes through.

    Attributes:
        length: An int, or a traced one.
        item: The value at a traced place.
        name: For messages.
    """

    length: Value
    item: Callable[[Value], Value]
    name: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What a variable holds where paths have met that disagree about it; an error when it is read."""

    reason: str


#: Python's numbers as tensors of no axes: exactly what Python computes with.
NUMBER_DTYPES = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64)}
_KINDS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float}

#: Operators of a number, filled in below.
NUMBER_OPERATORS: dict[str, Callable[[Value, Value], Tensor]] = {}


class TracedNumber(TracedTensor):
    """A Python bool, int or float that a graph computes, as a tensor of no axes in bool, int64 or float64.

    It is as weak as the number it stands for: next to a tensor it takes the tensor's dtype.
    """

    __slots__ = ()

    @property
    def kind(self) -> type:
        """The class of the number: bool, int or float."""
        return _KINDS[self.dtype.kind]

    def __add__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["+"](self, other)

    def __radd__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["+"](other, self)

    def __sub__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["-"](self, other)

    def __rsub__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["-"](other, self)

    def __mul__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["*"](self, other)

    def __rmul__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["*"](other, self)

    def __truediv__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["/"](self, other)

    def __rtruediv__(self, other: object) -> Tensor:
        return NUMBER_OPERATORS["/"](other, self)

    def __neg__(self) -> Tensor:
        return NUMBER_OPERATORS["-"](0, self)

    def __repr__(self) -> str:
        return f"TracedNumber({self.kind.__name__})"


def kind_of(value: object) -> type | None:
    """Return bool, int or float for a number, known or traced; else None."""
    if isinstance(value, TracedNumber):
        return value.kind
    return type(value) if type(value) in NUMBER_DTYPES else None


def as_number(tensor: Tensor) -> TracedNumber:
    """Return the Python number that a traced tensor of one element holds: bool, int or float."""
    assert isinstance(tensor, TracedTensor)
    kind = _KINDS.get(tensor.dtype.kind)
    if kind is None:
        raise CaptureError(f"a tensor of {tensor.dtype} is no bool, int or float")
    if tensor.shape:
        tensor = tensor.reshape(())
    return as_weak(operands.cast_to(tensor, NUMBER_DTYPES[kind]))


def as_weak(tensor: Tensor) -> TracedNumber:
    """Return the number that is a traced tensor of no axes in bool, int64 or float64."""
    assert isinstance(tensor, TracedTensor)
    number = TracedNumber(tensor.node)
    number.is_cut = tensor.is_cut
    return number


def as_strong(number: TracedNumber) -> TracedTensor:
    """Return the tensor of no axes that stands for a number."""
    tensor = TracedTensor(number.node)
    tensor.is_cut = number.is_cut
    return tensor


def number_tensor(number: Value, dtype: Dtype) -> Tensor:
    """Return a number, known or traced, as a tensor of no axes in that dtype."""
    if isinstance(number, TracedNumber):
        return operands.cast_to(as_strong(number), dtype)
    array: Array = np.asarray(number, dtype=dtype)
    return wrap(array)


def traced(value: object) -> bool:
    """Return whether a value is known only when the graph runs."""
    return isinstance(value, TracedTensor | TracedText)


_SAMPLES: dict[type, Number] = {bool: False, int: 0, float: 0.0}

_ARITHMETIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+": ops.add,
    "-": ops.subtract,
    "*": ops.multiply,
    "/": ops.divide,
    "//": ops.floor_divide,
    "%": ops.remainder,
    "**": ops.power,
}
_BITS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "&": ops.bitwise_and,
    "|": ops.bitwise_or,
    "^": ops.bitwise_xor,
    "<<": ops.left_shift,
    ">>": ops.right_shift,
}
_LOGIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"&": ops.logical_and, "|": ops.logical_or, "^": ops.not_equal}
_COMPARISONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
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


def compute(sign: str, a: Value, b: Value) -> Value:
    """Return `a sign b` for values of any kind, as Python would have it."""
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


def _beside(x: Tensor, number: object) -> tuple[Tensor, Tensor]:
    """Return a tensor and a number that takes its dtype."""
    kind = kind_of(number)
    if kind is None:
        raise CaptureError(f"an operand must be a tensor or a number, got {type(number).__name__}")
    dtype = promote_scalar(x.dtype, _SAMPLES[kind])
    return cast_to(x, dtype), number_tensor(number, dtype)


def _of_numbers(sign: str, a: Value, b: Value) -> TracedNumber:
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


def unary(sign: str, x: Value) -> TracedNumber:
    """Return `sign x` of a traced number: +, - or ~."""
    kind = int if kind_of(x) is bool else kind_of(x)
    assert kind is not None
    tensor = number_tensor(x, NUMBER_DTYPES[kind])
    if sign == "~":
        return as_number(ops.bitwise_not(tensor))
    return as_number(ops.negative(tensor)) if sign == "-" else as_number(tensor)


def truth(x: Tensor) -> TracedNumber:
    """Return whether a traced tensor of one element is true (not zero), as a traced bool."""
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
    NUMBER_OPERATORS[_sign] = cast("Callable[[Value, Value], Tensor]", partial(compute, _sign))
