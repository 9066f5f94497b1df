"""The table of writers: the name of a primitive to the function that writes it as ONNX nodes."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ...tables import entering

__all__ = ["WRITERS", "writer"]

#: `write(builder, node, *names)` adds nodes and gives the name of the output, or a tuple of names.
Writer: TypeAlias = Callable[..., Any]

WRITERS: dict[str, Writer] = {}

_Function = TypeVar("_Function", bound=Writer)


def writer(*primitives: str) -> Callable[[_Function], _Function]:
    """A decorator that makes a function the writer of these primitives."""
    return entering(WRITERS, primitives, "a writer")
