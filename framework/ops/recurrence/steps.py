"""What recurrent layers share: rows of steps, sequences that have ended, gradients of a composition."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...context import CAPTURE
from ...dtype import float32, float64
from ...errors import ShapeError
from ...shape import Spec
from ...tensor import Array, Tensor
from ..choose import where
from ..create import zeros_like
from ..fused import derived_from

Activation = Callable[[Tensor], Tensor]


def wide(x: Array) -> Array:
    """The array as the kernels take it: 16-bit floats in float32."""
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


def rows_of(steps: Array) -> Array:
    """All rows of all steps, one below the other."""
    return steps.reshape(steps.shape[0] * steps.shape[1], -1)


def states_before(first: Array, rows: Array) -> Array:
    """What the state was before each step."""
    return np.concatenate([first[None], rows[:-1]])


def check_shapes(gates: Spec, w: Spec, h0: Spec, count: int) -> None:
    """Nothing; gates, weights and state that do not fit together are refused."""
    fits = gates.ndim == 3 and w.ndim == 2 and h0.ndim == 2 and w.shape[0] == count * w.shape[1] == gates.shape[2]
    if not fits or h0.shape != (gates.shape[1], w.shape[1]):
        raise ShapeError(
            f"a recurrence of {count} gates expects inputs (time, batch, {count} * hidden), weights ({count} * hidden, "
            f"hidden) and a state (batch, hidden), got {gates.shape}, {w.shape} and {h0.shape}"
        )


def gradient_of(composition: Callable[..., Any], count: int) -> Callable[..., tuple[Tensor, ...]]:
    """The gradient of a composition by its first `count` inputs, as a composition of its own."""
    rule = derived_from(composition)

    def gradient(*arguments: Any, cotangents: int, **attributes: Any) -> tuple[Tensor, ...]:
        weights, inputs = arguments[:cotangents], list(arguments[cotangents:])
        for i in range(count):
            if CAPTURE.get() is None and not inputs[i].requires_grad:
                inputs[i] = inputs[i].detach()
                inputs[i].requires_grad = True
        needs = [i < count for i in range(len(inputs))]
        found = rule(needs, weights, None, *inputs, **attributes)
        return tuple(zeros_like(x) if g is None else g for g, x in zip(found[:count], inputs, strict=False))

    return gradient


def filled(g: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    """The gradients, zeros where there is none."""
    return [zeros_like(x) if part is None else part for part, x in zip(g, like, strict=True)]


def held(active: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """The new state where the sequence goes on, the old one where it has ended."""
    return where(active, new, old)


def is_active(lengths: Tensor, step: int) -> Tensor:
    """Which sequences have not ended before this step, `(batch, 1)`."""
    return (lengths > step).reshape(-1, 1)
