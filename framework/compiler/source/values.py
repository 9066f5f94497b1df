"""Python's numbers that are not known yet, as tensors of no axes that only interpreted code meets."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops import operands
from ...tensor import Array, Tensor, wrap
from ..traced import CaptureError, TracedTensor
from .unknown import TracedText

__all__ = [
    "TracedNumber",
    "as_number",
    "as_strong",
    "as_weak",
    "kind_of",
    "number_tensor",
]

#: Python's numbers as tensors of no axes: exactly what Python computes with.
NUMBER_DTYPES = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64)}
_KINDS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float}

#: Operators of a number, filled in by `number.py`.
NUMBER_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {}


class TracedNumber(TracedTensor):
    """A Python bool, int or float that a graph computes, as a tensor of no axes in bool, int64 or float64.

    It is as weak as the number it stands for: next to a tensor it takes the tensor's dtype.
    """

    __slots__ = ()

    @property
    def kind(self) -> type:
        """The class of the number: bool, int or float."""
        return _KINDS[self.dtype.kind]

    def __add__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["+"](self, other)

    def __radd__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["+"](other, self)

    def __sub__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["-"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["-"](other, self)

    def __mul__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["*"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["*"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["/"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return NUMBER_OPERATORS["/"](other, self)

    def __neg__(self) -> Any:
        return NUMBER_OPERATORS["-"](0, self)

    def __repr__(self) -> str:
        return f"TracedNumber({self.kind.__name__})"


def kind_of(value: Any) -> type | None:
    """bool, int or float for a number, known or traced; else None."""
    if isinstance(value, TracedNumber):
        return value.kind
    return type(value) if type(value) in NUMBER_DTYPES else None


def as_number(tensor: Tensor) -> TracedNumber:
    """The Python number that a traced tensor of one element holds: bool, int or float."""
    assert isinstance(tensor, TracedTensor)
    kind = _KINDS.get(tensor.dtype.kind)
    if kind is None:
        raise CaptureError(f"a tensor of {tensor.dtype} is no bool, int or float")
    if tensor.shape:
        tensor = tensor.reshape(())
    return as_weak(operands.cast_to(tensor, NUMBER_DTYPES[kind]))


def as_weak(tensor: Tensor) -> TracedNumber:
    """The number that is a traced tensor of no axes in bool, int64 or float64."""
    assert isinstance(tensor, TracedTensor)
    number = TracedNumber(tensor.node)
    number.is_cut = tensor.is_cut
    return number


def as_strong(number: TracedNumber) -> TracedTensor:
    """The tensor of no axes that stands for a number."""
    tensor = TracedTensor(number.node)
    tensor.is_cut = number.is_cut
    return tensor


def number_tensor(number: Any, dtype: Any) -> Tensor:
    """A number, known or traced, as a tensor of no axes in that dtype."""
    if isinstance(number, TracedNumber):
        return operands.cast_to(as_strong(number), dtype)
    array: Array = np.asarray(number, dtype=dtype)
    return wrap(array)


def traced(value: Any) -> bool:
    """Whether a value is known only when the graph runs."""
    return isinstance(value, TracedTensor | TracedText)
