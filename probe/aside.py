"""Forwards that belong to no training step: an attack on the model, a hand-written search, a look from outside."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ASIDE: ContextVar[bool] = ContextVar("aside", default=False)
#: Whether the caller is inside `aside()`.
is_aside = _ASIDE.get


@contextmanager
def aside() -> Iterator[None]:
    """A block whose forwards and backward passes no monitor of this thread records, in whatever mode the model is.

    `mindscope.armour` enters it around everything that it asks of a model; a training that looks for adversarial
    inputs in its own loop does the same, so that the search does not count as micro-steps.
    """
    token = _ASIDE.set(True)
    try:
        yield
    finally:
        _ASIDE.reset(token)
