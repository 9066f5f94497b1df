"""A value of an object that is worked out when it is first asked for, and kept."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class once(Generic[_T]):  # noqa: N801  it is written like a decorator
    """As `functools.cached_property`, without the lock that it takes in Python 3.11: for objects of one thread.

    Args:
        make: The method, whose name the value takes in the object.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:  # Any: an object of whatever class it is written in
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, one: Any, owner: type | None = None) -> _T:
        value: _T = self._make(one)
        one.__dict__[self._name] = value
        return value
