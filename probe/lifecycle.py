"""What happens to monitors when the process ends or forks."""

import atexit
import logging
import multiprocessing
import os
import sys
from multiprocessing.util import Finalize
from typing import Final, Protocol
from weakref import WeakSet

from .guard import belongs_to_training


class _Closable(Protocol):
    @property
    def held_bytes(self) -> int:
        """Bytes of host memory that it holds."""

    def watches(self, model: object) -> bool:
        """Return whether this very model is watched."""

    def close(self, error: BaseException | None = None) -> None:
        """End the run."""

    def disown(self) -> None:
        """Become inert: the process is a fork of the one that watches."""


_log = logging.getLogger(__name__)
#: Before the finalizers of others, which may end what a training uses.
_FIRST: Final = 1000
_open: "WeakSet[_Closable]" = WeakSet()
_seen_before: list[BaseException | None] = [None]


def register(monitor: _Closable) -> None:
    """Close the monitor at exit, and make it inert in forked copies of this process."""
    if not _open:
        _seen_before[0] = _last_error()
        _close_at_the_end_of_a_child()
    _open.add(monitor)


def _close_at_the_end_of_a_child() -> None:
    """Close monitors also where `multiprocessing` ends a child, which runs no exit handlers of the interpreter's."""
    if multiprocessing.parent_process() is not None:
        Finalize(None, _close_in_child, exitpriority=_FIRST)


def _close_in_child() -> None:
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit) and error.__context__ is not None:
        error = error.__context__  # `torch.multiprocessing.spawn` exits when the function has raised
    _call_all("close", error)


def _call_all(name: str, *arguments: object) -> None:
    """Call a method of every open monitor; where one fails, the others and the end of the process must not."""
    for monitor in tuple(_open):
        try:
            getattr(monitor, name)(*arguments)
        except BaseException as failure:
            if belongs_to_training(failure):
                raise
            _log.error("a monitor could not be closed", exc_info=failure)


def unregister(monitor: _Closable) -> None:
    """Stop looking after the monitor."""
    _open.discard(monitor)


def is_watched(model: object) -> bool:
    """Return whether a monitor that is open watches this model."""
    return any(monitor.watches(model) for monitor in tuple(_open))


def held_bytes() -> int:
    """Return the bytes of host memory that all open monitors hold."""
    return sum(monitor.held_bytes for monitor in tuple(_open))


def _last_error() -> BaseException | None:
    """Return the uncaught exception, as the interpreter leaves it behind when it prints one."""
    return getattr(sys, "last_value", None)


def _close_all() -> None:
    error = _last_error()
    _call_all("close", error if error is not _seen_before[0] else None)


def _disown_all() -> None:
    _call_all("disown")
    _open.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
