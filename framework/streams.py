"""Streams of the CPU, which do nothing: every operation is done when its call returns.

Programs written for devices that run asynchronously find the names they use, and what the names promise holds.
"""

import logging
from types import TracebackType

__all__ = ["Stream", "current_stream", "launch_blocking", "synchronize"]

_log = logging.getLogger(__name__)


class Stream:
    """The order of operations on the CPU, which is that of the calls.

    Using one as a context, waiting for it or recording it costs nothing and changes nothing.
    """

    _has_told = False

    def __init__(self) -> None:
        if not Stream._has_told:
            Stream._has_told = True
            _log.info("streams do nothing on the CPU: every operation is done when its call returns")

    def query(self) -> bool:
        """Return whether all that was put on the stream is done: it always is."""
        return True

    def synchronize(self) -> None:
        """Wait until all that was put on the stream is done."""

    def wait_stream(self, stream: "Stream") -> None:
        """Run what is put on this stream from here on after what was put on the other."""

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the block."""

    def __repr__(self) -> str:
        return "Stream(CPU: operations are done when their calls return)"


_STREAM = Stream.__new__(Stream)


def current_stream() -> Stream:
    """Return the one stream there is."""
    return _STREAM


def synchronize() -> None:
    """Wait until all operations are done."""


def launch_blocking() -> None:
    """Do nothing: every operation is done, and its errors are raised, when its call returns."""
