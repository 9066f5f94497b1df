"""Files written whole or not at all: a reader, and a run that is killed, never sees half of one."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

__all__ = ["write_whole"]


def write_whole(target: Path, content: bytes) -> None:
    """Write this content to the file; if that fails, the file keeps what it had before."""
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", suffix=".part", delete=False) as part:
        try:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
            os.chmod(part.name, 0o666 & ~_umask())
            os.replace(part.name, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(part.name)
            raise
    _sync_folder(target.parent)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems do not open folders; the rename is safe there without it
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
