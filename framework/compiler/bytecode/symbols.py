"""What an interpreter of bytecode holds besides values: breaks, handles, iterators, lengths that are looked at."""

from types import ModuleType
from typing import Any

from ...tensor import Tensor
from ..traced import CaptureError, TracedKey, TracedTensor
from .calls import is_engine
from .concrete import MUTABLE

__all__ = ["Break", "Handle", "Length", "Steps", "is_callable_part", "is_object"]


class Break(CaptureError):
    """The graph ends before this instruction."""


class Handle:
    """A value that came from outside of the graph and has not been looked at: nothing is assumed of it.

    Attributes:
        number: Its place among those values.
        value: What it was when the graph was captured.
    """

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: Any) -> None:
        self.number, self.value = number, value


class Steps:
    """An iterator whose place is known."""

    __slots__ = ("index", "items")

    def __init__(self, items: Any) -> None:
        self.items, self.index = items, 0

    def rest(self) -> list[Any]:
        """What is still to come."""
        return list(self.items[self.index :])


class Length:
    """The length of a container, as an attribute."""

    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        self._of = of

    @property
    def now(self) -> int:
        """How many items there are."""
        return len(self._of)


def is_engine_or_numpy(owner: Any) -> bool:
    """Whether a module or class never changes."""
    name: str = getattr(owner, "__module__", None) or getattr(owner, "__name__", None) or ""
    return is_engine(owner) or name.partition(".")[0] in ("numpy", "math", "mindscope")


def is_object(value: Any) -> bool:
    """Whether a value is an object of a class of the user, which stays the same from call to call."""
    return not isinstance(value, (*MUTABLE, tuple, Tensor, TracedTensor, TracedKey)) and not hasattr(value, "__next__")


def is_callable_part(value: Any) -> bool:
    """Whether a value is a method of something else, made anew at every look."""
    owner = getattr(value, "__self__", None)
    return callable(value) and owner is not None and not isinstance(owner, ModuleType)
