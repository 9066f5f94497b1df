"""The housekeeping of one run file while it is written: is it still there, is there room, is the log short."""

import logging
import os
import time
from pathlib import Path

from sqlalchemy import Engine

from ..errors import StoreUnavailable

_log = logging.getLogger(__name__)
#: The log is written back into the file when it has grown to this, and by so much again; and, since it keeps its size
#: where it begins anew, after so many seconds.
_CHECKPOINT_BYTES, _CHECKPOINT_S = 12 * 2**20, 10.0
#: Observations stop when the disk has less room than this, or than a twentieth of it: others need the rest.
_RESERVE_BYTES = 32 * 2**20
#: A file that is only there to be deleted: its room lets a run be ended on a full disk.
_BALLAST_BYTES = 2 * 2**20
#: Free pages are given back during the run when there are so many; compaction makes and refills some all the time.
_FREE_PAGES = 16384


class RunFile:
    """The `Place` of a run file."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._log = Path(f"{path}-wal")
        self._ballast = Path(f"{path}-ballast")
        self._engine = engine
        self._inode = path.stat().st_ino
        self._ended = False
        self._log_limit, self._checkpoint_at = _CHECKPOINT_BYTES, 0.0
        try:
            with self._ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, _BALLAST_BYTES)
        except OSError as error:
            _log.warning("%s: no room is kept for a full disk: %s", path, error.strerror)

    def check(self, *, growing: bool) -> None:
        """Nothing while the file is the one that was opened and, if it is to grow, the disk has room.

        Raises:
            StoreUnavailable: It was deleted or replaced; SQLite itself would go on writing into nothing. Or the disk
                is nearly full.
        """
        try:
            inode = os.stat(self._path).st_ino
        except OSError as error:
            raise StoreUnavailable(f"{self._path} is gone while it was written: {error.strerror}") from error
        if inode != self._inode:
            raise StoreUnavailable(f"{self._path} was replaced by another file while it was written")
        if not growing:
            return
        disk = os.statvfs(self._path)
        free, reserve = disk.f_bavail * disk.f_frsize, min(_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 20)
        if free < reserve:
            raise StoreUnavailable(
                f"{self._path}: the disk has {free >> 20} MB left, {reserve >> 20} MB are kept for others; "
                f"observations are lost until there is room"
            )

    def tidy(self) -> bool:
        """Does one bounded piece (write the log back, give free pages back); True when more is waiting."""
        size, now = self._log_size(), time.monotonic()
        if size < _CHECKPOINT_BYTES or (size < self._log_limit and now < self._checkpoint_at):
            return False
        self._run("PRAGMA wal_checkpoint(PASSIVE)")
        has_more = self._vacuum(_FREE_PAGES)
        self._log_limit, self._checkpoint_at = size + _CHECKPOINT_BYTES, now + (0.0 if has_more else _CHECKPOINT_S)
        return has_more

    def make_room(self) -> None:
        """Gives up the ballast, so that a run can be ended on a full disk."""
        self._ended = True
        self._ballast.unlink(missing_ok=True)

    def release(self) -> None:
        """Gives all free pages back, writes the log back and lets go of the file."""
        try:
            while self._ended and self._vacuum(0):
                pass
            self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._engine.dispose()
            self._ballast.unlink(missing_ok=True)

    def _vacuum(self, spare: int) -> bool:
        """True when more than `spare` pages were free and some were given back."""
        if self._run("PRAGMA freelist_count")[0][0] <= spare:
            return False
        connection = self._engine.raw_connection()
        try:
            # Through executescript: execute frees a single page.
            connection.driver_connection.executescript("PRAGMA incremental_vacuum(2048)")  # type: ignore[union-attr]
        finally:
            connection.close()
        return True

    def _run(self, statement: str) -> list[tuple[int, ...]]:
        connection = self._engine.raw_connection()
        try:
            return list(connection.cursor().execute(statement).fetchall())
        finally:
            connection.close()

    def _log_size(self) -> int:
        try:
            return os.stat(self._log).st_size
        except OSError:
            return 0
