"""Operations that only source code brings into a graph: raise an error, check a condition, print a line."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...ir import Abstract, Apply, Constant, Node, OpaqueType, type_of
from ...ir.control import Control
from ...tensor import Array, wrap
from ..capture import GraphCapture
from ..traced import CaptureError
from .unknown import TracedText
from .values import TracedNumber, kind_of, traced

__all__ = ["check", "raising", "say"]

#: What is printed: words, or `(how to format, is a number)` for each value in turn.
Template: TypeAlias = tuple[Any, ...]


def _text(template: Template, values: Sequence[Any]) -> str:
    rest = iter(values)
    return "".join(part if isinstance(part, str) else _shown(next(rest), *part) for part in template)


def _shown(value: Any, form: str, is_number: bool) -> str:
    array: Array = np.asarray(value)
    shown = array.item() if is_number else wrap(array)
    return f"{shown!r}" if form == "!r" else format(shown, form) if form else str(shown)


def _raise(*_: object, kind: type[BaseException], arguments: tuple[Any, ...], **__: object) -> Any:
    raise kind(*arguments)


def _check(condition: Any, *values: Any, message: Template, count: int) -> Any:
    if not condition:
        raise AssertionError(_text(message, values[:count]))
    return condition


def _print(*values: Any, template: Template, flush: bool, count: int) -> Array:
    print(_text(template, values[:count]), end="", flush=flush)  # noqa: T201 (the user's own print)
    return np.zeros(0, np.bool_)


_raise_error = Control("raise_error", _raise, lambda *_, type, **__: type, is_effect=True)
_assert = Control("check", _check, lambda condition, *_, **__: condition, is_effect=True)
_say = Control("print", _print, lambda *_, **__: type_of(np.zeros(0, np.bool_)), is_effect=True)


def raising(capture: GraphCapture, error: BaseException | None, type: Abstract, after: list[Node]) -> Node:
    """A node that raises the error when the graph runs, in the place of a value of that type."""
    if error is None:  # this graph is made anew as soon as the type of the result is known
        error = RecursionError("the result of a recursion was not known")
    if any(isinstance(part, TracedText) for part in error.args):
        raise CaptureError(
            "the message of an error that is raised under a condition on traced values cannot hold such values"
        )
    attributes = {"kind": error.__class__, "arguments": tuple(error.args), "type": type}
    function = Constant(_raise_error, OpaqueType("Control"))
    return Apply(capture.graph, [function, *after], type, attributes, capture.where())


def template_of(value: Any) -> tuple[list[Any], list[Any]]:
    """The template of one printed value, and the traced values in it."""
    if isinstance(value, TracedText):
        template: list[Any] = []
        values: list[Any] = []
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


def check(capture: Any, condition: TracedNumber, message: Any) -> None:
    """Nothing; when the graph runs and the condition does not hold, AssertionError is raised with the message."""
    template, values = template_of(message)
    where = capture.where()
    template.append(f" ({where.file}:{where.line})")
    nodes = [capture.node_of(value) for value in values]
    node = capture.graph.apply(
        _assert, condition.node, *nodes, *capture._after(), message=tuple(template), count=len(nodes), where=where
    )
    capture._effect(node)


def say(capture: Any, parts: Sequence[Any], *, sep: str, end: str, flush: bool) -> None:
    """Nothing; when the graph runs the parts are printed."""
    template: list[Any] = []
    values: list[Any] = []
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
