"""Bounds one call in time and memory: what lasts longer is stopped, what wants more gets a `MemoryError`."""

import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class LastedTooLong(BaseException):
    """A call lasted longer than it may; no `Exception`, so that no reader takes it for damage of its file."""


@contextmanager
def bounded_memory(spare_bytes: int) -> Iterator[None]:
    """Let this process allocate at most so many bytes more than it has; address space that is reserved is free."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmData:\s+(\d+) kB", status)
    resource.setrlimit(resource.RLIMIT_DATA, (int(kilobytes) * 1024 + spare_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def bounded_time(limit_s: float) -> Iterator[None]:
    """Raise `LastedTooLong` in the main thread when the body needs more time of the processor.

    A busy machine makes no call late by this measure. A call that only waits is not stopped here, but by the timeout
    of its test.
    """

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise LastedTooLong(f"lasted longer than {limit_s:g} s")

    handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, handler)
