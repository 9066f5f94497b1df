"""Work beside the training: forwards that no monitor records, calls that leave the random generators as they were."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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
def same_random_numbers(seed: int | None = None) -> Iterator[None]:
    """Restore the random generators of the process after the block: of Python, NumPy, and torch on every device.

    Args:
        seed: Of torch's generators inside of the block; without one they go on. `torch.manual_seed` is no way to seed
            there: it also seeds devices that the process has not begun to use, which nothing restores.
    """
    numpy = sys.modules.get("numpy.random")
    python_state = random.getstate()
    numpy_state = numpy.get_state() if numpy is not None else None
    of_torch = [(generator, generator.get_state()) for generator in _torch_generators()]
    try:
        if seed is not None:
            for generator, _ in of_torch:
                generator.manual_seed(seed)
        yield
    finally:
        random.setstate(python_state)
        if numpy is not None:
            numpy.set_state(numpy_state)
        for generator, state in of_torch:
            generator.set_state(state)


def _torch_generators() -> list[Any]:
    """Return torch's generators of the host, and of the devices that the process has used."""
    torch: Any = sys.modules.get("torch")
    host = getattr(torch, "default_generator", None)
    if host is None:  # torch is not there, or being imported
        return []
    found = [host]
    for name in ("cuda", "xpu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_initialized():
            found += device.default_generators
    if torch.backends.mps.is_available():
        found.append(torch.mps._get_default_mps_generator())
    return found
