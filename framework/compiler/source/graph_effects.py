"""Operations that only source code brings into a graph: raise, check, print, and barriers that end the tape."""

from collections.abc import Sequence
from typing import NoReturn, Protocol, TypeAlias

import numpy as np

from ...context import RECORDING
from ...dtype import is_inexact
from ...ir import Abstract, Apply, ConstantNode, Graph, Node, OpaqueType, type_of
from ...ir.control_ops import Control
from ...tape_node import TapeNode
from ...tensor import Array, Tensor, wrap
from ..capture import GraphCapture
from ..traced import CaptureError, TracedTensor
from .traced_numbers import TracedNumber, TracedText, kind_of, traced

__all__ = ["BarrierMet", "behind_barrier", "check", "raising", "say"]

#: What is printed: words, or `(how to format, is a number)` for each value in turn.
Template: TypeAlias = tuple[str | tuple[str, bool], ...]


def _text(template: Template, values: Sequence[object]) -> str:
    rest = iter(values)
    return "".join(part if isinstance(part, str) else _shown(next(rest), *part) for part in template)


def _shown(value: object, form: str, is_number: bool) -> str:
    array: Array = np.asarray(value)
    shown = array.item() if is_number else wrap(array)
    return f"{shown!r}" if form == "!r" else format(shown, form) if form else str(shown)


def _raise(*_: object, kind: type[BaseException], arguments: tuple[object, ...], **__: object) -> object:
    raise kind(*arguments)


def _check(condition: object, *values: object, message: Template, count: int) -> object:
    if not condition:
        raise AssertionError(_text(message, values[:count]))
    return condition


def _print(*values: object, template: Template, flush: bool, count: int) -> Array:
    print(_text(template, values[:count]), end="", flush=flush)  # noqa: T201 (the user's own print)
    return np.zeros(0, np.bool_)


_raise_error = Control("raise_error", _raise, lambda *_, type, **__: type, is_effect=True)
_assert = Control("check", _check, lambda condition, *_, **__: condition, is_effect=True)
_say = Control("print", _print, lambda *_, **__: type_of(np.zeros(0, np.bool_)), is_effect=True)


def raising(capture: GraphCapture, error: BaseException | None, type: Abstract, after: list[Node]) -> Node:
    """Return a node that raises the error when the graph runs, in the place of a value of that type."""
    if error is None:  # this graph is made anew as soon as the type of the result is known
        error = RecursionError("the result of a recursion was not known")
    if any(isinstance(part, TracedText) for part in error.args):
        raise CaptureError(
            "the message of an error that is raised under a condition on traced values cannot hold such values"
        )
    attributes = {"kind": error.__class__, "arguments": tuple(error.args), "type": type}
    function = ConstantNode(_raise_error, OpaqueType("Control"))
    return Apply(capture.graph, [function, *after], type, attributes, capture.where())


def template_of(value: object) -> tuple[list[str | tuple[str, bool]], list[object]]:
    """Return the template of one printed value, and the traced values in it."""
    if isinstance(value, TracedText):
        template: list[str | tuple[str, bool]] = []
        values: list[object] = []
        for part in value.parts:
            if isinstance(part, str):
                template.append(part)
            else:
                template.append((part[1], kind_of(part[0]) is not None))
                values.append(part[0])
        return template, values
    if traced(value):
        return [("", isinstance(value, TracedNumber))], [value]
    return [str(value)], []


def check(capture: GraphCapture, condition: TracedNumber, message: object) -> None:
    """Let the graph raise AssertionError with the message when it runs and the condition does not hold."""
    template, values = template_of(message)
    where = capture.where()
    template.append(f" ({where.file}:{where.line})")
    nodes = [capture.node_of(value) for value in values]
    node = capture.graph.apply(
        _assert, condition.node, *nodes, *capture._after(), message=tuple(template), count=len(nodes), where=where
    )
    capture._effect(node)


def say(capture: GraphCapture, parts: Sequence[object], *, sep: str, end: str, flush: bool) -> None:
    """Let the graph print the parts when it runs."""
    template: list[str | tuple[str, bool]] = []
    values: list[object] = []
    for number, part in enumerate(parts):
        if number:
            template.append(sep)
        words, found = template_of(part)
        template += words
        values += found
    nodes = [capture.node_of(value) for value in values]
    node = capture.graph.apply(
        _say,
        *nodes,
        *capture._after(),
        template=(*template, end),
        flush=flush,
        count=len(nodes),
        where=capture.where(),
    )
    capture._effect(node)


class BarrierMet(CaptureError):
    """A backward pass by the tape has come to the end of the tape."""


class _Barrier:
    """Stands in the recorded graph in the place of a primitive."""

    name = "control flow"
    is_differentiable = True
    saves_output = False

    def pull_back(self, *_: object) -> NoReturn:
        """Raise an error with the remedy."""
        raise BarrierMet(
            "a backward pass inside a compiled function came to an if, while, for or recursion over tensors, which the "
            "tape cannot go back through; use grad or value_and_grad there (they differentiate the graph), or call "
            "backward(), vjp or jvp outside of the compiled function"
        )


_BARRIER = _Barrier()  # a primitive for the tape


class TapeCapture(Protocol):
    """What a barrier asks of the capture.

    Attributes:
        root: The outermost graph.
        recorded: The arguments that a backward pass may ask for.
        barriers: Number of barriers so far.
    """

    root: Graph
    recorded: list[Tensor]
    barriers: int


def behind_barrier(capture: TapeCapture, value: object) -> object:
    """Return the value; a backward pass by the tape that reaches it is told that it ends there."""
    if isinstance(value, TracedTensor) and not isinstance(value, TracedNumber):
        if RECORDING.get() and is_inexact(value.dtype):
            weights = (x.weight for x in capture.root.weights if x.weight is not None)
            inputs = (*capture.recorded, *(w for w in weights if w.requires_grad))
            value._node = TapeNode(_BARRIER, inputs, {}, None, 1)
            capture.barriers += 1
            value.requires_grad = True
    elif isinstance(value, dict):
        for part in value.values():
            behind_barrier(capture, part)
    elif isinstance(value, list | tuple):
        for part in value:
            behind_barrier(capture, part)
    return value
