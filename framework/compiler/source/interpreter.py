"""What all running functions of one capture share, and the table of functions that are called in a way of their own."""

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ...tensor import Tensor
from ..traced import CaptureError, TracedTensor
from .number import compute, truth
from .staging import SourceCapture
from .unknown import Gap, TracedIterable

if TYPE_CHECKING:
    from .frame import Frame
    from .outside import Outside

__all__ = ["SPECIAL", "Interpreter", "special"]

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

# Functions by identity, and what is done when interpreted code calls them: handler(interpreter, arguments, options).
SPECIAL: dict[Any, Callable[["Interpreter", tuple[Any, ...], dict[str, Any]], Any]] = {}

Value = Any  # a value of the user's program


def special(*functions: Any) -> Callable[[_Handler], _Handler]:
    """A decorator: interpreted code that calls one of these functions calls the handler."""

    def register(handler: _Handler) -> _Handler:
        SPECIAL.update(dict.fromkeys(functions, handler))
        return handler

    return register


class Interpreter:
    """Runs source code on traced values.

    Args:
        capture: The graph that is being built.
        outside: What code reads that is not its own.
        caller: How a function is called.
        bridge: Makes a user's function one that library code can call.

    Attributes:
        pending: Calls that are running, for recursion: see `recursion.py`.
    """

    def __init__(
        self, capture: SourceCapture, outside: "Outside", caller: Callable[..., Value], bridge: Callable[..., Value]
    ) -> None:
        self._bridge = bridge
        self.capture, self.outside, self._caller = capture, outside, caller
        self.pending: list[Any] = []

    def call(self, function: Value, arguments: tuple[Value, ...], options: dict[str, Value]) -> Value:
        """What the function returns."""
        return self._caller(self, function, arguments, options)

    def bridge(self, function: Value) -> Value:
        """The function in a form that library code can call and the interpreter runs."""
        return self._bridge(self, function)

    def truth(self, value: Value) -> Value:
        """Whether a value counts as true: a bool if that is known, else a traced one."""
        if isinstance(value, TracedTensor):
            return truth(value)
        method = getattr(type(value), "__bool__", None)
        if method is not None and not isinstance(value, bool | int | float | complex | Tensor | type(None)):
            return self.truth(self.call(method, (value,), {}))
        return bool(value)

    def condition(self, frame: "Frame", node: ast.expr) -> Value:
        """Whether an expression is true: a bool if that is known, else a traced one."""
        return self.truth(frame.value(node))

    def operate(self, sign: str, a: Value, b: Value) -> Value:
        """`a sign b`."""
        return compute(sign, a, b)

    def checked(self, value: Value, what: str) -> Value:
        """The value, which paths must have agreed about."""
        if isinstance(value, Gap):
            frame = self.capture.frames[-1]
            raise CaptureError(f"{what} at {frame.file}:{frame.line} {value.reason}")
        return value

    def iterate(self, frame: "Frame", value: Value) -> Iterable[Value]:
        """The items of something whose length is known."""
        if not isinstance(value, TracedIterable):
            items: Iterable[Value] = iter(self.outside.content(value))
            return items
        if not isinstance(value.length, int):
            raise frame.unsupported(
                f"collecting the items of {value.name}, whose number is only known when the graph runs,",
                "a graph has no lists that grow: use a for statement that updates tensors",
            )
        return (value.item(place) for place in range(value.length))
