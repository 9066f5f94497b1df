"""Control flow: choice, loops, scans over axes; their bodies see the values around them."""

from typing import Any

import numpy as np

from ... import ops
from ...errors import ShapeError
from ...tensor import Tensor, wrap
from ..call import Body, Call, array_of
from ..registry import operator


@operator("If")
def choose(call: Call, condition: Tensor) -> tuple[Any, ...]:
    """The outputs of one branch or the other.

    Where the condition has no value yet (a function is being captured, a batch is mapped over), both are computed and
    the right one is picked element by element.
    """
    if isinstance(condition, Tensor) and condition.__fallback__ is not None:
        return _picked(call, condition)
    branch = "then_branch" if bool(array_of(condition).reshape(-1)[0]) else "else_branch"
    return call.run(call.get(branch))


def _picked(call: Call, condition: Tensor) -> tuple[Any, ...]:
    both = zip(call.run(call.get("then_branch")), call.run(call.get("else_branch")), strict=True)
    found = []
    for a, b in both:
        if not isinstance(a, Tensor) or not isinstance(b, Tensor) or (a.shape, a.dtype) != (b.shape, b.dtype):
            raise call.refuse("a choice, by a condition that has no value yet, between branches of different types")
        found.append(ops.where(condition.reshape(()), a, b))
    return tuple(found)


@operator("Loop")
def loop(call: Call, trips: Any, condition: Any, *carried: Any) -> tuple[Any, ...]:
    """What a body carries from one round to the next, and what it gives each round, stacked."""
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
def scan(call: Call, *inputs: Any) -> tuple[Any, ...]:
    """A body run over slices of the last inputs: what it carries on, and what it gives each round, stacked."""
    return _scan(call, inputs, call.get("num_scan_inputs"))


def _scan(call: Call, inputs: tuple[Any, ...], scanned: int) -> tuple[Any, ...]:
    body: Body = call.get("body")
    state, over = list(inputs[: len(inputs) - scanned]), inputs[len(inputs) - scanned :]
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
def scan_batch(call: Call, lengths: Any, *inputs: Any) -> tuple[Any, ...]:
    """The scan of version 8: of each batch entry on its own."""
    if lengths is not None:
        raise call.refuse("sequence lengths")
    scanned = call.get("num_scan_inputs")
    call.attributes = {**call.attributes, "scan_input_directions": call.get("directions", (0,) * scanned)}
    entries = [_scan(call, tuple(x[b] for x in inputs), scanned) for b in range(inputs[0].shape[0])]
    return tuple([ops.stack(list(column)) for column in zip(*entries, strict=True)])
