"""`super()`, `getattr`, `setattr` and what else asks Python about objects."""

from typing import Any

from .interpreter import Interpreter, special
from .outside import Outside

Value = Any  # a value of the user's program


@special(super)
def parent(interpreter: Interpreter, arguments: tuple[Value, ...], options: dict[str, Value]) -> Value:
    """`super()` of the method that runs."""
    del options
    if arguments:
        return super(*arguments)
    frame = interpreter.capture.frames[-1]
    return super(frame.load("__class__"), frame.first)


@special(getattr)
def get(interpreter: Interpreter, arguments: tuple[Value, ...], options: dict[str, Value]) -> Value:
    """`getattr(owner, name, default)`."""
    del options
    outside: Outside = interpreter.outside
    owner, name, *default = arguments
    if default and not hasattr(owner, name):
        return default[0]
    return outside.attribute(owner, name)


@special(setattr)
def put(interpreter: Interpreter, arguments: tuple[Value, ...], options: dict[str, Value]) -> None:
    """`setattr(owner, name, value)`."""
    del options
    interpreter.outside.set_attribute(*arguments)
