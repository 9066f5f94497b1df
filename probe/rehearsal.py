"""A script that is only looked at: what it watches itself is not recorded, so that looking leaves no run behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..storage import MemoryStore
from .adapters import Adapter
from .configuration.config import Config
from .monitor import Monitor

__all__ = ["is_rehearsal", "rehearsal", "stand_in"]

_IS_ON: ContextVar[bool] = ContextVar("is_rehearsal", default=False)


@contextmanager
def rehearsal() -> Iterator[None]:
    """While it is open, `watch` returns monitors that watch nothing."""
    token = _IS_ON.set(True)
    try:
        yield
    finally:
        _IS_ON.reset(token)


def is_rehearsal() -> bool:
    """Whether a script is only looked at."""
    return _IS_ON.get()


def stand_in(adapter: Adapter, name: str) -> Monitor:
    """A monitor that is closed already and whose run is nowhere; the script can ask it for what it asks any other."""
    monitor = Monitor(adapter, Config())
    monitor.write_to(MemoryStore().begin_run(name, framework=adapter.framework), ())
    monitor.retire()
    return monitor
