"""Keeps the garbage collector away while our own modules are imported.

Imports create many objects and no garbage. A look through the heap of a program that has loaded PyTorch takes 0.1 s.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collected_later", "uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage inside."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def collected_later() -> Iterator[None]:
    """Collect no garbage inside, and afterwards only among objects that were created since."""
    with uncollected():
        yield
        gc.freeze()
