"""Whether the disk of a folder of runs takes what a training records: a full or read-only one does not."""

import os
from pathlib import Path
from typing import Final

__all__ = ["store_trouble", "without_room"]

#: No observations are written when the disk has less room than this, or less than a twentieth: others need the rest.
_RESERVE_BYTES: Final = 32 * 2**20


def without_room(path: Path) -> str:
    """Return in words how little room the disk has; empty if it is enough to record.

    Raises:
        OSError: The path is not there.
    """
    disk = os.statvfs(path)
    free, reserve = disk.f_bavail * disk.f_frsize, min(_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 20)
    if free >= reserve:
        return ""
    return f"the disk has {free >> 20} MB left, {reserve >> 20} MB are reserved; observations wait until there is room"


def store_trouble(url: str) -> str:
    """Return why trainings cannot record into the store now; empty if they can, and for what is no folder.

    Args:
        url: Of the store.
    """
    path = Path(url).expanduser()
    if "://" in url or url == "memory:" or not path.exists():
        return ""
    try:
        if os.statvfs(path).f_flag & os.ST_RDONLY or not os.access(path, os.W_OK):
            return f"{path} is read-only: nothing can be recorded into it"
        return without_room(path)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
