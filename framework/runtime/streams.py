"""Streams, which other devices have: here every operation is done when its call returns, so they do nothing.

Programs written for devices that run behind the host's back find the names they use, and what the names promise holds:
what was put on a stream is done in order, and after `synchronize` all of it is.
"""

import logging
from types import TracebackType

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
        """Whether all that was put on the stream is done: it always is."""
        return True

    def synchronize(self) -> None:
        """Nothing; all that was put on the stream is done."""

    def wait_stream(self, stream: "Stream") -> None:
        """Nothing; what is put on this stream from here on comes after what was put on the other."""

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing."""

    def __repr__(self) -> str:
        return "Stream(CPU: operations are done when their calls return)"


_STREAM = Stream.__new__(Stream)


def current_stream() -> Stream:
    """The one stream there is."""
    return _STREAM


def synchronize() -> None:
    """Nothing; all operations are done."""


def launch_blocking() -> None:
    """Nothing; every operation is done, and its errors are raised, when its call returns, as always here."""
