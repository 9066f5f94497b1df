"""Functions of torch that are replaced while anybody listens; the last listener that leaves puts them back."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar

_Listener = TypeVar("_Listener")


class Replaced(Generic[_Listener]):
    """The listeners of some functions.

    Args:
        replace: Replaces the functions, each by `put`; called when somebody begins to listen.

    Attributes:
        listeners: All of them.
        awake: Those that want to hear of calls at present; the same list all the time.
    """

    def __init__(self, replace: Callable[[], None]) -> None:
        self._replace = replace
        self.listeners: list[_Listener] = []
        self.awake: list[_Listener] = []
        self._originals: list[tuple[Any, str, Any, Any]] = []

    def add(self, listener: _Listener) -> None:
        """Nothing; the listener hears of every call from now on."""
        self.listeners.append(listener)
        self.awake.append(listener)
        if len(self.listeners) == 1:
            self._replace()

    def remove(self, listener: _Listener) -> None:
        """Nothing; after the last one torch is as it was, unless others have replaced the same functions meanwhile."""
        self.wake(listener, False)
        if listener in self.listeners:
            self.listeners.remove(listener)
        if self.listeners:
            return
        while self._originals:
            owner, name, original, ours = self._originals.pop()
            if getattr(owner, name) is ours:
                setattr(owner, name, original)

    def wake(self, listener: _Listener, is_awake: bool) -> None:
        """Nothing; the listener hears of calls from now on, or does not."""
        if listener in self.awake:
            self.awake.remove(listener)
        if is_awake and listener in self.listeners:
            self.awake.append(listener)

    def put(self, owner: Any, name: str, build: Callable[[Any], Any]) -> None:
        """Nothing; the owner has, under this name, what is built around its original."""
        original = getattr(owner, name)
        ours = update_wrapper(build(original), original)
        self._originals.append((owner, name, original, ours))
        setattr(owner, name, ours)
