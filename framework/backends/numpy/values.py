"""What the generated code knows of each node: how it is called there, what it looks like, and whose memory it is in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...shape import Shape
from ...tensor import Array
from .plan import Buffer

__all__ = [
    "Value",
    "have_same_owner",
    "is_multipliable",
    "is_whole",
    "layout_of",
    "lies_in_any",
    "owners_of",
    "proxy",
]


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


def owners_of(values: Sequence[Value]) -> tuple[Buffer, ...]:
    """All memory that the values lie in."""
    found = [owner for x in values for owner in (*x.owners, *owners_of(x.parts or ()))]
    return tuple(dict.fromkeys(found))


def is_multipliable(array: Array) -> bool:
    """Whether BLAS takes the matrices of a stack as they are: rows or columns contiguous."""
    if array.ndim < 2 or not array.size:
        return True
    item = array.itemsize
    rows, columns = array.strides[-2:]
    return bool(
        (columns == item and rows >= item * array.shape[-1])
        or (rows == item and columns >= item * array.shape[-2])
        or 1 in array.shape[-2:]
    )


def layout_of(value: Value) -> tuple[str, int]:
    """The dtype and the number of axes of an array, as a kernel is compiled for."""
    assert value.array is not None
    return value.array.dtype.name, value.array.ndim


def have_same_owner(a: Value, b: Value) -> bool:
    """Whether a buffer holds parts of both."""
    return any(owner in b.owners for owner in a.owners)


def lies_in_any(value: Value, others: Iterable[Value]) -> bool:
    """Whether the array of the value may share memory with one of the others."""
    return value.array is not None and any(
        other.array is not None and np.may_share_memory(value.array, other.array) for other in others
    )
