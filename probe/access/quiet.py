"""Python's and NumPy's generators of random numbers, put back behind a call that nobody shall notice."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Inside anything may be drawn; behind it `random` and `numpy.random` go on as if nothing had been."""
    numpy = sys.modules.get("numpy.random")
    ours = random.getstate()
    theirs = numpy.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(ours)
        if numpy is not None:
            numpy.set_state(theirs)
