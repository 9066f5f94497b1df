"""What is asked of the garbage collector: to stay away while our modules are imported, and which objects it knows."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, compress, starmap
from typing import Any

__all__ = ["objects_of", "uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage inside; nothing is frozen, so that a script finds the collector as Python shows it.

    Imports create many objects and no garbage. A look through the heap of a program with PyTorch takes 0.1 s.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def objects_of(*bases: type) -> list[Any]:
    """Return the objects that the garbage collector knows and whose class derives from any of these.

    Millions of objects are told apart by the identity of their class, which asks none of them anything: proxies of
    other libraries would wake.

    A list of all objects must not be held while another thread runs. It may be in the middle of `tuple(generator)`,
    and Python refuses to resize a tuple that somebody else holds as well (`SystemError: bad argument to internal
    function`). So the list is asked for, gone through and dropped in one call of `list`, which no thread interrupts.
    """
    kinds, waiting = dict[int, type](), [*bases]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in kinds:
            kinds[id(kind)] = kind
            waiting += type.__subclasses__(kind)
    everything: list[Any] = []
    fill = map(everything.extend, map(gc.get_objects, (None,)))
    found = compress(everything, map(kinds.__contains__, map(id, map(type, everything))))
    drop = starmap(everything.clear, ((),))
    return list(chain(fill, found, drop))[1:-1]
