"""A script that is watched from outside: what it would watch itself is refused before a run of it begins."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["refuse_own_watch", "watched_from_outside"]

_REFUSE: ContextVar[Callable[[object], None] | None] = ContextVar("watched_from_outside", default=None)


@contextmanager
def watched_from_outside(refuse: Callable[[object], None]) -> Iterator[None]:
    """While it is open, every `watch` asks `refuse` first, which raises where it may not watch that model."""
    token = _REFUSE.set(refuse)
    try:
        yield
    finally:
        _REFUSE.reset(token)


def refuse_own_watch(model: object) -> None:
    """Nothing; raises what ends the script where it is watched from outside and watches this model itself."""
    refuse = _REFUSE.get()
    if refuse is not None:
        refuse(model)
