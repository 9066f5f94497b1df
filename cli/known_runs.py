"""What a list tells of runs that are over, kept from one call of the command to the next.

The file `runs.json` is in `$MINDSCOPE_CACHE`, by default `$XDG_CACHE_HOME/mindscope` or `~/.cache/mindscope`, beside
compiled kernels; it may be deleted at any time. A run is known by its version in its store, the sizes and times of its
files, and the code that judges it: a run that changes, is damaged or is judged by other rules is read again.
"""

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .store_options import is_path

if TYPE_CHECKING:
    from ..storage import Run, Store

_log = logging.getLogger(__name__)
#: Runs that are remembered, those that were asked for last; our choice, some hundred bytes each.
_MOST: Final = 5000


class KnownRuns:
    """The memory of earlier calls; `save` keeps it for later ones.

    Args:
        file: By default the user's.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = _usual_file() if file is None else file
        self._entries: dict[str, dict[str, Any]] = {}  # Any: parsed JSON
        self._code = ""
        self._is_changed = False
        try:
            found = json.loads(self._file.read_bytes())
            self._entries = {str(key): dict(entry) for key, entry in found.items()}
        except (OSError, ValueError, TypeError, AttributeError) as error:  # not there yet, or damaged
            _log.debug("no run is known from earlier calls: %s", error)

    def recall(self, store: "Store", run: "Run", name: str, read: Callable[[], Any]) -> Any:  # Any: what JSON holds
        """Return what `read` returned for this name of the run as it is now; a run that goes on is always read."""
        if run.state == "running":
            return read()
        key = self._key(store, run)
        entry = self._entries.pop(key, {})
        self._entries[key] = entry  # the last in the file, which stays longest
        if name not in entry:
            entry[name] = read()
            self._is_changed = True
        return entry[name]

    def save(self) -> None:
        """Write the file if there is something new; do nothing where it cannot be written."""
        if not self._is_changed:
            return
        kept = dict(list(self._entries.items())[-_MOST:])
        part = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(kept))
            part.replace(self._file)
        except (OSError, TypeError, ValueError) as error:
            _log.debug("what is known of the runs cannot be kept: %s", error)
        with suppress(OSError):  # where it was not renamed
            part.unlink(missing_ok=True)

    def _key(self, store: "Store", run: "Run") -> str:
        self._code = self._code or _code_that_judges()
        parts = (store.url, run.id, run.state, store.version(run.id), _files_of(store.url, run.id), self._code)
        return blake2b(repr(parts).encode(), digest_size=16).hexdigest()  # of a URL with its password, too


def _usual_file() -> Path:
    chosen = os.environ.get("MINDSCOPE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else (Path(home) if home else Path.home() / ".cache") / "mindscope") / "runs.json"


def _files_of(url: str, run: str) -> list[tuple[str, int, int]]:
    """Return name, size and time of the files of a run; none of a database."""
    if not is_path(url):
        return []
    place = Path(url).expanduser().absolute()
    folder = place.parent if place.suffix == ".db" else place
    found = []
    for path in folder.glob(f"{escape(run)}.*.db"):
        with suppress(OSError):  # it was removed meanwhile
            found.append((str(path), path.stat().st_size, path.stat().st_mtime_ns))
    return sorted(found)


def _code_that_judges() -> str:
    """Return a text that changes with the modules of the diagnosis, and of this package."""
    root = Path(__file__).parent.parent
    modules = [path for part in ("insight", "storage", "cli") for path in (root / part).rglob("*.py")]
    stamps = sorted((str(path), stat.st_size, stat.st_mtime_ns) for path in modules for stat in [path.stat()])
    return blake2b(repr(stamps).encode(), digest_size=16).hexdigest()
