"""Tables of functions by name: a decorator enters one under its names, and a name is entered once."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .errors import NameTaken

__all__ = ["entering"]

_Function = TypeVar("_Function", bound=Callable[..., object])


def entering(
    table: "dict[str, Callable[..., Any]]", names: Iterable[str], what: str
) -> "Callable[[_Function], _Function]":
    """Return a decorator that enters a function under the names.

    Args:
        table: Changed.
        names: Of the entries.
        what: An entry in words, for the error.

    Raises:
        NameTaken: One of the names has an entry already.
    """

    def enter(function: _Function) -> _Function:
        for name in names:
            if name in table:
                raise NameTaken(f"there is {what} of '{name}' already")
            table[name] = function
        return function

    return enter
