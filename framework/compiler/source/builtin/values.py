"""Values as these functions see them: numbers that are traced or known, and calls that concern no traced value."""

from collections.abc import Callable
from typing import Any

from ...traced import CaptureError, TracedTensor
from ..values import TracedNumber, as_number, as_strong, traced

__all__ = ["Arguments", "Options", "as_index", "plain_or", "single_number"]


Value = Any  # a value of the user's program
Arguments = tuple[Value, ...]
Options = dict[str, Value]


def as_index(place: Value) -> Value:
    """A place to start counting from, strong where it is traced."""
    return as_strong(place) if isinstance(place, TracedNumber) else place


def single_number(value: Value) -> Value:
    """The Python number in a traced tensor of one element; other values as they are."""
    if isinstance(value, TracedTensor) and not isinstance(value, TracedNumber):
        if value.size != 1:
            raise CaptureError(f"a number can be made of a tensor of one element, got shape {value.shape}")
        return as_number(value)
    return value


def plain_or(handler: Callable[..., Value], function: Callable[..., Value], *call: Any) -> Value:
    """The handler's result for traced values, else the function's own."""
    _, arguments, options = call
    return handler(*call) if any(map(traced, arguments)) else function(*arguments, **options)
