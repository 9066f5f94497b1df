"""What stands for a value between compiled pieces: something a piece made, bound, or only hands on."""

from threading import local
from typing import Any, NamedTuple

__all__ = ["Bound", "Handles", "Made", "Rest", "Slot"]


class Slot(NamedTuple):
    """In the place of a value that is no tensor: which handle it is."""

    number: int


class Made:
    """In the place of an object that a piece found, and that is the same for every run of the piece."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Bound(NamedTuple):
    """In the place of a method of a tensor, or of a container that a piece made."""

    owner: Any
    name: str


class Rest(NamedTuple):
    """In the place of an iterator: what it will still give."""

    items: Any


class Handles:
    """The handles of the call that the running thread makes."""

    def __init__(self) -> None:
        self._of = local()

    def __getitem__(self, number: int) -> Any:
        return self._of.values[number]

    def set(self, values: list[Any]) -> None:
        """Nothing; these are the handles from now on."""
        self._of.values = values
