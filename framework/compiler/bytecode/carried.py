"""Values between compiled pieces: what a piece makes, what it is bound to, what it only hands on."""

from typing import Any

from ...random import Key
from ...tensor import Parameter, Tensor
from ..guards import is_simple
from .frame import NULL, UNBOUND
from .interpreter import Symbolic
from .stand_ins import Bound, Handles, Made, Rest, Slot
from .symbols import Handle, Steps

__all__ = ["Carried", "NothingToDo", "inside", "outside", "resolved"]


class NothingToDo(Exception):
    """A piece would do nothing, or leaves behind what cannot be carried to the next."""


def outside(value: Any, handles: list[Any]) -> Any:
    """What a piece is given for a value: a tensor or key itself, a tuple with such part by part, else a slot."""
    if (isinstance(value, Tensor) and not isinstance(value, Parameter)) or isinstance(value, Key):
        return value
    if isinstance(value, tuple) and any(isinstance(x, Tensor | Key | tuple) for x in value):
        parts = [outside(x, handles) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    handles.append(value)
    return Slot(len(handles) - 1)


def inside(value: Any, handles: Handles) -> Any:
    """What stands in the frames of a piece for what it was given."""
    if isinstance(value, Slot):
        held = handles[value.number]
        return held if held is NULL or held is UNBOUND else Handle(value.number, held)
    if isinstance(value, tuple):
        parts = [inside(x, handles) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


class Carried:
    """Values at the end of a piece, as the compiled piece returns them.

    Raises:
        NothingToDo: A list or dict stands in two places, so that copies of it would not be the same.
    """

    def __init__(self, run: Symbolic) -> None:
        self._run = run
        self._seen: set[int] = set()

    def __call__(self, value: Any) -> Any:
        """The value, or what stands for it."""
        if isinstance(value, Handle):
            return Slot(value.number)
        if (isinstance(value, Tensor | Key) and not isinstance(value, Parameter)) or is_simple(value):
            return value
        if isinstance(value, Steps):
            return Rest(tuple(self(x) for x in value.rest()))
        if isinstance(value, tuple):
            parts = [self(x) for x in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if self._run.owns(value) and isinstance(value, list | dict | set):
            return self._container(value)
        owner = getattr(value, "__self__", None)
        if isinstance(owner, Tensor | Key | list | dict) and callable(value):
            return Bound(self(owner), value.__name__)
        if not self._run.is_from_outside(value) or getattr(value, "__defaults__", None):
            raise NothingToDo
        return Made(value)

    def _container(self, value: Any) -> Any:
        if id(value) in self._seen or isinstance(value, set):
            raise NothingToDo
        self._seen.add(id(value))
        if isinstance(value, dict):
            return {key: self(x) for key, x in value.items()}
        return [self(x) for x in value]


def resolved(value: Any, handles: list[Any]) -> Any:
    """A value that a piece returned, as plain Python knows it."""
    if isinstance(value, Slot):
        return handles[value.number]
    if isinstance(value, Made):
        return value.value
    if isinstance(value, Bound):
        return getattr(resolved(value.owner, handles), value.name)
    if isinstance(value, Rest):
        return iter([resolved(x, handles) for x in value.items])
    if isinstance(value, tuple):
        parts = [resolved(x, handles) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [resolved(x, handles) for x in value]
    if isinstance(value, dict):
        return {key: resolved(x, handles) for key, x in value.items()}
    return value
