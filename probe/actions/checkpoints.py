"""States of a training that are saved because of what was found; the newest few are kept."""

import logging
from collections.abc import Callable
from pathlib import Path

from ...storage import StoreUnavailable

_log = logging.getLogger(__name__)


class Checkpoints:
    """Files `step-000000012.rank0.pt` in a folder beside the run.

    Args:
        folder: Made with the first of them.
        save: Writes the state into a file.
        suffix: Of the framework's own files.
        rank: Of this process.
    """

    def __init__(self, folder: Path, save: Callable[[Path], object], suffix: str, rank: int) -> None:
        self.folder, self._save, self._ending = folder, save, f".rank{rank}{suffix}"

    def save(self, step: int, keep: int) -> Path:
        """The file that now holds the state before this step; of those of this rank only the newest are left."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{step:09d}{self._ending}"
        self._save(path)
        for old in sorted(self.folder.glob(f"step-*{self._ending}"))[:-keep]:
            old.unlink(missing_ok=True)
        _log.warning("the state before step %d is saved in %s", step, path)
        return path


def checkpoint_folder(url: str, run: str, folder: str | None) -> Path:
    """Where the checkpoints of a run go.

    Raises:
        StoreUnavailable: The store is no folder, and none was given.
    """
    if folder is not None:
        return Path(folder) / f"{run}.checkpoints"
    if "://" in url or url.startswith("memory:"):
        place = url.partition("@")[0]
        raise StoreUnavailable(f"a store at {place} cannot hold checkpoints; name a `folder` in on_finding")
    path = Path(url)
    return (path.parent if path.suffix == ".db" else path) / f"{run}.checkpoints"
