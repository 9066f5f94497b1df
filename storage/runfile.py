"""The housekeeping of one run file while it is written: is it still there, is there room, is the log short."""

import os
from pathlib import Path

from sqlalchemy import Engine

from .errors import StoreUnavailable

#: The log is written back into the file when it has grown to this.
CHECKPOINT_BYTES = 12 * 2**20


class RunFile:
    """The `Place` of a run file."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._log = Path(f"{path}-wal")
        self._engine = engine
        self._inode = path.stat().st_ino
        self._closing = False

    def check(self) -> None:
        """Nothing while the file is the one that was opened.

        Raises:
            StoreUnavailable: It was deleted or replaced; SQLite itself would go on writing into nothing.
        """
        try:
            inode = os.stat(self._path).st_ino
        except OSError as error:
            raise StoreUnavailable(f"{self._path} is gone while it was written: {error.strerror}") from error
        if inode != self._inode:
            raise StoreUnavailable(f"{self._path} was replaced by another file while it was written")

    def tidy(self) -> bool:
        """Does one bounded piece (the checkpoint); True when more is waiting."""
        try:
            if os.stat(self._log).st_size < CHECKPOINT_BYTES:
                return False
        except OSError:
            return False
        connection = self._engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        finally:
            connection.close()
        return False

    def release(self) -> None:
        """Writes the log back, as the last connection does, and lets go of the file."""
        self._engine.dispose()
