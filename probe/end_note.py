"""Lets a fatal signal leave a note of the line that ran, without a handler that the script could see.

`faulthandler` installs its handlers below Python's: `signal.getsignal` still returns the default, the process ends as
it would have, and a script that installs a handler of its own replaces ours.
"""

import faulthandler
import signal
from pathlib import Path
from typing import IO

__all__ = ["EndNote"]

_open: list["EndNote"] = []


class EndNote:
    """The note of one run; of several that are open at a time, only the first is written.

    Args:
        path: The file, removed by `discard`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._enables = False
        if _open:
            return
        try:
            self._file = path.open("wb")
            self._enables = not faulthandler.is_enabled()
            if self._enables:
                faulthandler.enable(self._file)
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                faulthandler.register(signal.SIGTERM, self._file, all_threads=False, chain=True)
        except (OSError, ValueError, RuntimeError, AttributeError):  # a full disk, no file descriptor, no POSIX
            self.discard()
            return
        _open.append(self)

    def release(self) -> None:
        """Leave the handlers as they were, and the file where it is: this process is a fork of the one that writes."""
        if self._file is None:
            return
        faulthandler.unregister(signal.SIGTERM)
        if self._enables:
            faulthandler.disable()
        self._file.close()
        self._file = None
        _open.clear()

    def discard(self) -> None:
        """End the note: the run ends in another way."""
        is_ours = self._file is not None
        self.release()
        if is_ours:
            self._path.unlink(missing_ok=True)
