"""Control flow, sequences and optional values."""

from typing import Any

import numpy as np

from ... import ops
from ...errors import ShapeError
from ...tensor import Tensor, wrap
from ..operator_call import Body, Elements, OperatorCall, Value, array_of, operator, whole_numbers
from .shape_operators import concatenated, equal_parts, reshaped


@operator("If")
def choose(call: OperatorCall, condition: Tensor) -> tuple[Value, ...]:
    """Return the outputs of one branch or the other.

    Where the condition has no value yet (a function is being captured, a batch is mapped over), both are computed and
    the right one is picked element by element.
    """
    if isinstance(condition, Tensor) and condition.__fallback__ is not None:
        return _picked(call, condition)
    branch = "then_branch" if bool(array_of(condition).reshape(-1)[0]) else "else_branch"
    return call.run(call.get(branch))


def _picked(call: OperatorCall, condition: Tensor) -> tuple[Tensor, ...]:
    both = zip(call.run(call.get("then_branch")), call.run(call.get("else_branch")), strict=True)
    found = []
    for a, b in both:
        if not isinstance(a, Tensor) or not isinstance(b, Tensor) or (a.shape, a.dtype) != (b.shape, b.dtype):
            raise call.refuse("a choice, by a condition that has no value yet, between branches of different types")
        found.append(ops.where(condition.reshape(()), a, b))
    return tuple(found)


@operator("Loop")
def loop(call: OperatorCall, trips: Elements | None, condition: Elements | None, *carried: Value) -> tuple[Value, ...]:
    """Return what a body carries from one round to the next, and what it gives each round, stacked."""
    body: Body = call.get("body")
    most = None if trips is None else int(array_of(trips).reshape(-1)[0])
    goes_on = True if condition is None else bool(array_of(condition).reshape(-1)[0])
    state, rows, step = list(carried), [], 0
    while goes_on and (most is None or step < most):
        given = wrap(np.asarray(goes_on))
        verdict, *results = call.run(body, wrap(np.asarray(step, np.int64)), given, *state)
        state, kept = results[: len(carried)], results[len(carried) :]
        rows.append(kept)
        step += 1
        goes_on = bool(array_of(verdict).reshape(-1)[0])
    if not rows:
        return (*state, *(wrap(np.zeros((0,), np.float32)) for _ in call.outputs[len(carried) :]))
    return (*state, *(ops.stack(list(column)) for column in zip(*rows, strict=True)))


@operator("Scan", since=9)
def scan(call: OperatorCall, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return a body run over slices of the last inputs: what it carries on, and what it gives each round, stacked."""
    return _scan(call, inputs, call.get("num_scan_inputs"))


def _scan(call: OperatorCall, inputs: tuple[Tensor, ...], scanned: int) -> tuple[Tensor, ...]:
    body: Body = call.get("body")
    state: list[Any] = list(inputs[: len(inputs) - scanned])
    over = inputs[len(inputs) - scanned :]
    axes = [axis % x.ndim for axis, x in zip(call.get("scan_input_axes", (0,) * scanned), over, strict=True)]
    backwards = call.get("scan_input_directions", (0,) * scanned)
    lengths = {x.shape[axis] for x, axis in zip(over, axes, strict=True)}
    if len(lengths) != 1:
        raise ShapeError(f"Scan '{call.name}' expects inputs of one length along the scanned axes, got {lengths}")
    steps = lengths.pop()
    rows = []
    for step in range(steps):
        slices = [
            x[(*(slice(None),) * axis, steps - 1 - step if back else step)]
            for x, axis, back in zip(over, axes, backwards, strict=True)
        ]
        results = call.run(body, *state, *slices)
        state, kept = list(results[: len(state)]), results[len(state) :]
        rows.append(kept)
    count = len(call.outputs) - len(state)
    out_axes = call.get("scan_output_axes", (0,) * count)
    out_back = call.get("scan_output_directions", (0,) * count)
    columns = list(zip(*rows, strict=True)) if rows else []
    stacked = [
        ops.stack(list(column[::-1] if back else column), axis % (column[0].ndim + 1))
        for column, axis, back in zip(columns, out_axes, out_back, strict=True)
    ]
    return (*state, *stacked)


@operator("Scan", since=8)
def scan_batch(call: OperatorCall, lengths: Elements | None, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the scan of version 8: of each batch entry on its own."""
    if lengths is not None:
        raise call.refuse("sequence lengths")
    scanned = call.get("num_scan_inputs")
    call.attributes = {**call.attributes, "scan_input_directions": call.get("directions", (0,) * scanned)}
    entries = [_scan(call, tuple(x[b] for x in inputs), scanned) for b in range(inputs[0].shape[0])]
    return tuple([ops.stack(list(column)) for column in zip(*entries, strict=True)])


@operator("SequenceConstruct")
def construct(call: OperatorCall, *parts: Value) -> list[Value]:
    """Return the inputs as a sequence."""
    return list(parts)


@operator("SequenceEmpty")
def empty(call: OperatorCall) -> list[Value]:
    """Return a sequence of nothing."""
    return []


@operator("SequenceLength")
def length(call: OperatorCall, sequence: list[Value]) -> Tensor:
    """Return the number of its elements."""
    return wrap(np.asarray(len(sequence), np.int64))


@operator("SequenceAt")
def at(call: OperatorCall, sequence: list[Value], position: Elements) -> Value:
    """Return the element at a position, which may count from the end."""
    return sequence[whole_numbers(position)[0]]


@operator("SequenceInsert")
def insert(call: OperatorCall, sequence: list[Value], value: Value, position: Elements | None = None) -> list[Value]:
    """Return the sequence with one more element, before a position or at the end."""
    place = len(sequence) if position is None else whole_numbers(position)[0]
    return [*sequence[:place], value, *sequence[place:]]


@operator("SequenceErase")
def erase(call: OperatorCall, sequence: list[Value], position: Elements | None = None) -> list[Value]:
    """Return the sequence without the element at a position, or without the last."""
    place = (len(sequence) - 1 if position is None else whole_numbers(position)[0]) % len(sequence)
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("ConcatFromSequence")
def concat_sequence(call: OperatorCall, sequence: list[Elements]) -> Elements:
    """Return the elements one after the other along an axis, an old or a new one."""
    axis = call.get("axis")
    if not call.get("new_axis", 0):
        return concatenated(sequence, axis)
    place = axis % (sequence[0].ndim + 1)
    return concatenated([reshaped(x, (*x.shape[:place], 1, *x.shape[place:])) for x in sequence], place)


@operator("SplitToSequence")
def split_to_sequence(call: OperatorCall, x: Elements, split: Elements | None = None) -> list[Elements]:
    """Return the parts of an axis: of the sizes given, of one size, or of one element each (their axis dropped if
    asked)."""
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
def map_sequence(call: OperatorCall, *inputs: Tensor | list[Value]) -> tuple[list[Value], ...]:
    """Return what the body makes of each element, one sequence for each of its outputs."""
    body: Body = call.get("body")
    rounds = [call.run(body, *(x[i] if isinstance(x, list) else x for x in inputs)) for i in range(len(inputs[0]))]
    return tuple([list(column) for column in zip(*rounds, strict=True)]) or tuple([[] for _ in call.outputs])


@operator("Optional")
def optional(call: OperatorCall, value: Value = None) -> Value:
    """Return the value, or none."""
    return value


@operator("OptionalHasElement")
def has_element(call: OperatorCall, value: Value = None) -> Tensor:
    """Return whether there is a value."""
    return wrap(np.asarray(value is not None))


@operator("OptionalGetElement")
def get_element(call: OperatorCall, value: Value) -> Value:
    """Return the value, which must be there."""
    if value is None:
        raise call.refuse("the value of an optional that is empty")
    return value
