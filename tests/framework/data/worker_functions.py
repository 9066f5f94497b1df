"""Functions that tests send to worker processes, which can import them from here."""

import os
import signal

import numpy as np


def squared(x, y):
    return x * x, y + 1


def noisy(generator, x, y):
    return x + generator.standard_normal(x.shape), y


def failing(x, y):
    if int(y) == 5:
        raise KeyError("item five")
    return x, y


class Unreadable:
    """Can be written to a pickle and not read back."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise TypeError("this is never read back")


class Stubborn(Exception):
    """Carries what its pickle cannot bring back, also where a library (tblib, of dask) taught exceptions to travel."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.carried = Unreadable()


def stubborn(x, y):
    raise Stubborn("this", "that")


def dying(x, y):
    if int(y) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x, y


def unsendable(x, y):
    return (lambda: x, y)


def whoami(x, y):
    return x, np.asarray(os.getpid())


def large(x, y):
    return np.full(300_000, float(y)), y
