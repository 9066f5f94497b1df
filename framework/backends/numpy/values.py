"""What the generated code knows of each node: how it is called there, what it looks like, and whose memory it is in."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...shape import Shape
from ...tensor import Array
from .plan import Buffer

__all__ = ["Value", "is_whole", "proxy"]


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One value of the generated code.

    Attributes:
        name: The expression that gives it.
        array: An array of its shape, dtype and strides, of arbitrary content; None for what is no array.
        owners: The buffers it lies in: they live as long as somebody reads it.
        is_static: Whether it is the same object at every call: in planned memory, a weight, a constant.
        parts: Of a tuple.
    """

    name: str
    array: Array | None = None
    owners: tuple[Buffer, ...] = ()
    is_static: bool = False
    parts: "tuple[Value, ...] | None" = None


def proxy(shape: Shape, dtype: Any) -> Array:
    """An array to look at, not into: its memory is never touched, so a large one costs nothing."""
    return np.empty(shape, dtype)


def is_whole(value: Value, buffer: Buffer) -> bool:
    """Whether the value is all of the buffer, in order."""
    array = value.array
    return array is not None and array.flags.c_contiguous and array.nbytes == buffer.nbytes
