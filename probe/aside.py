"""Work beside the training: forwards that no monitor records, calls that leave the random generators as they were."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .warning_places import without_warnings

_ASIDE: ContextVar[bool] = ContextVar("aside", default=False)
#: Whether the caller is inside `aside()`.
is_aside = _ASIDE.get


@contextmanager
def aside() -> Iterator[None]:
    """Keep all monitors of this thread from recording the block's forwards and backward passes, in any mode.

    `mindscope.armour` enters it around everything that it asks of a model; a training that looks for adversarial
    inputs in its own loop does the same, so that the search does not count as micro-steps.
    """
    token = _ASIDE.set(True)
    try:
        yield
    finally:
        _ASIDE.reset(token)


_CHECKING: ContextVar[bool] = ContextVar("checking", default=False)
#: Whether the caller is inside `checking()`.
is_checking = _CHECKING.get


@contextmanager
def checking() -> Iterator[None]:
    """As `aside`, for what one process tries by itself: collectives raise `CollectiveRefused`.

    Other ranks may be elsewhere, and a collective that only some of them make would meet one of the training. What is
    called once more does not warn once more.
    """
    token = _CHECKING.set(True)
    try:
        with aside(), without_warnings():
            yield
    finally:
        _CHECKING.reset(token)


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Restore the states of `random` and `numpy.random` after the block."""
    numpy = sys.modules.get("numpy.random")
    python_state = random.getstate()
    numpy_state = numpy.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python_state)
        if numpy is not None:
            numpy.set_state(numpy_state)
