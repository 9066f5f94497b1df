"""Sequences (lists of values) and optional values."""

from typing import Any

import numpy as np

from ...tensor import Tensor, wrap
from ..call import Body, Call, array_of, whole_numbers
from ..registry import operator
from .shape import concatenated, equal_parts, reshaped


@operator("SequenceConstruct")
def construct(call: Call, *parts: Any) -> list[Any]:
    """The inputs as a sequence."""
    return list(parts)


@operator("SequenceEmpty")
def empty(call: Call) -> list[Any]:
    """A sequence of nothing."""
    return []


@operator("SequenceLength")
def length(call: Call, sequence: list[Any]) -> Tensor:
    """The number of its elements."""
    return wrap(np.asarray(len(sequence), np.int64))


@operator("SequenceAt")
def at(call: Call, sequence: list[Any], position: Any) -> Any:
    """The element at a position, which may count from the end."""
    return sequence[whole_numbers(position)[0]]


@operator("SequenceInsert")
def insert(call: Call, sequence: list[Any], value: Any, position: Any = None) -> list[Any]:
    """The sequence with one more element, before a position or at the end."""
    place = len(sequence) if position is None else whole_numbers(position)[0]
    return [*sequence[:place], value, *sequence[place:]]


@operator("SequenceErase")
def erase(call: Call, sequence: list[Any], position: Any = None) -> list[Any]:
    """The sequence without the element at a position, or without the last."""
    place = (len(sequence) - 1 if position is None else whole_numbers(position)[0]) % len(sequence)
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("ConcatFromSequence")
def concat_sequence(call: Call, sequence: list[Any]) -> Any:
    """The elements one after the other along an axis, an old or a new one."""
    axis = call.get("axis")
    if not call.get("new_axis", 0):
        return concatenated(sequence, axis)
    place = axis % (sequence[0].ndim + 1)
    return concatenated([reshaped(x, (*x.shape[:place], 1, *x.shape[place:])) for x in sequence], place)


@operator("SplitToSequence")
def split_to_sequence(call: Call, x: Any, split: Any = None) -> list[Any]:
    """The parts of an axis: of the sizes given, of one size, or of one element each (their axis dropped if asked)."""
    axis = call.get("axis", 0) % x.ndim
    total = x.shape[axis]
    if split is None:
        sizes: tuple[int, ...] = (1,) * total
    elif array_of(split).ndim:
        sizes = whole_numbers(split)
    else:
        size = int(array_of(split))
        sizes = (
            equal_parts(total, -(-total // size)) if total % size == 0 else (*(size,) * (total // size), total % size)
        )
    ends = np.cumsum(sizes).tolist()
    parts = [x[(*(slice(None),) * axis, slice(end - n, end))] for n, end in zip(sizes, ends, strict=True)]
    if split is None and not call.get("keepdims", 1):
        return [reshaped(part, (*part.shape[:axis], *part.shape[axis + 1 :])) for part in parts]
    return parts


@operator("SequenceMap")
def map_sequence(call: Call, *inputs: Any) -> tuple[list[Any], ...]:
    """What the body makes of each element, one sequence for each of its outputs."""
    body: Body = call.get("body")
    rounds = [call.run(body, *(x[i] if isinstance(x, list) else x for x in inputs)) for i in range(len(inputs[0]))]
    return tuple([list(column) for column in zip(*rounds, strict=True)]) or tuple([[] for _ in call.outputs])


@operator("Optional")
def optional(call: Call, value: Any = None) -> Any:
    """The value, or none."""
    return value


@operator("OptionalHasElement")
def has_element(call: Call, value: Any = None) -> Tensor:
    """Whether there is a value."""
    return wrap(np.asarray(value is not None))


@operator("OptionalGetElement")
def get_element(call: Call, value: Any) -> Any:
    """The value, which must be there."""
    if value is None:
        raise call.refuse("the value of an optional that is empty")
    return value
