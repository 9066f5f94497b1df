"""Where the tape ends: results of control flow that happens when the graph runs, which it cannot go back through."""

from typing import Any, NoReturn

from ...context import RECORDING
from ...dtype import is_inexact
from ...node import Node
from ..traced import CaptureError, TracedTensor
from .values import TracedNumber

__all__ = ["BarrierMet", "behind_barrier"]


class BarrierMet(CaptureError):
    """A backward pass by the tape has come to the end of the tape."""


class _Barrier:
    """Stands in the recorded graph in the place of a primitive."""

    name = "control flow"
    is_differentiable = True
    saves_output = False

    def pull_back(self, *_: object) -> NoReturn:
        """Never: an error with the remedy."""
        raise BarrierMet(
            "a backward pass inside a compiled function came to an if, while, for or recursion over tensors, which the "
            "tape cannot go back through; use grad or value_and_grad there (they differentiate the graph), or call "
            "backward(), vjp or jvp outside of the compiled function"
        )


_BARRIER: Any = _Barrier()  # a primitive for the tape


def behind_barrier(capture: Any, value: Any) -> Any:
    """The value; a backward pass by the tape that reaches it is told that it ends there."""
    if isinstance(value, TracedTensor) and not isinstance(value, TracedNumber):
        if RECORDING.get() and is_inexact(value.dtype):
            weights = (x.weight for x in capture.root.weights)
            inputs = (*capture.recorded, *(w for w in weights if w.requires_grad))
            value._node = Node(_BARRIER, inputs, {}, None, 1)
            capture.barriers += 1
            value.requires_grad = True
    elif isinstance(value, dict):
        for part in value.values():
            behind_barrier(capture, part)
    elif isinstance(value, list | tuple):
        for part in value:
            behind_barrier(capture, part)
    return value
