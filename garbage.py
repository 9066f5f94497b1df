"""Keeps the garbage collector away while our own modules are imported.

Imports create many objects and no garbage. A look through the heap of a program that has loaded PyTorch takes 0.1 s.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage inside; nothing is frozen, so that a script finds the collector as Python shows it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
