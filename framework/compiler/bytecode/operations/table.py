"""What the instructions of CPython 3.11 do: one handler each, in a table.

A handler gets the interpreter and the frame, whose stack it changes. These are the handlers of 3.11; what 3.12 and 3.13
add and change stands in `later`. What is not in the table of a version is not interpreted: a function that has such an
instruction runs as plain Python.

Handlers that touch what lies outside of the function (attributes, globals, calls) ask the interpreter, which guards,
goes into the call, or ends the graph.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from ..frame import Frame, Instruction

__all__ = ["BASE", "Handler", "on"]


Handler: TypeAlias = Callable[[Any, Frame, Instruction], None]
#: The handlers of 3.11.
BASE: dict[str, Handler] = {}


def on(*names: str, table: dict[str, Handler] = BASE) -> Callable[[Handler], Handler]:
    """A decorator: the function handles the instructions of these names."""

    def register(handler: Handler) -> Handler:
        for name in names:
            table[name] = handler
        return handler

    return register
