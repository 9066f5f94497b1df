"""Changes of the configuration while a training runs: an edited file, or settings that `mindscope set` has left.

Both are files, looked at a few times a second by their time stamps. `mindscope set` writes `<run>.set.yaml` beside the
run: fields laid over the configuration. A change that is wrong, or that cannot be made under way, is refused with one
warning and an event; what was before stays.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from .config import Config, load_config
from .errors import ConfigError, ProbeError

__all__ = ["CHANGEABLE", "Control", "ask_for", "request_file"]

#: Fields that take effect at the next step; the others belong to the start of a run.
CHANGEABLE: Final = ("every", "subjects", "histograms", "modules", "types", "depth", "exclude")
#: Our choice: a person who waits for a change does not notice, and two stat calls cost a few microseconds.
_LOOK_S: Final = 0.2

Stamp = tuple[int, int] | None


class Control:
    """Looks for changes.

    Args:
        config: What is recorded now.
        source: The file that the configuration came from, if it came from one.
        requests: Where `mindscope set` leaves what it was asked for; None where there is no such place.
    """

    def __init__(
        self,
        config: Config,
        source: Path | None,
        requests: Path | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._clock = config, clock
        self._files = (source, requests)
        self._stamps: list[Stamp] = [_stamp(source), None]
        self._looked = clock()

    def look(self) -> Config | None:
        """The new configuration, if one was asked for since the last look.

        Raises:
            ConfigError: One was, and it is wrong or cannot be made under way; it is not asked about again.
        """
        now = self._clock()
        if now - self._looked < _LOOK_S:
            return None
        self._looked = now
        stamps = [_stamp(file) for file in self._files]
        if stamps == self._stamps:
            return None
        self._stamps = stamps
        source, requests = self._files
        asked = _read(requests) if requests is not None and stamps[1] is not None else {}
        found = load_config(source if source is not None and stamps[0] is not None else self._config, **asked)
        fixed = [name for name in type(found).model_fields if name not in CHANGEABLE]
        changed = [name for name in fixed if getattr(found, name) != getattr(self._config, name)]
        if changed:
            raise ConfigError(
                f"{', '.join(changed)} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}"
            )
        if found == self._config:
            return None
        self._config = found
        return found


def differences(before: Config, after: Config) -> dict[str, Any]:
    """The fields that changed, with their new values, as JSON."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return {name: value for name, value in new.items() if value != old[name]}


def is_folder(url: str) -> bool:
    """Whether the store is a folder, or a file in one."""
    return "://" not in url and not url.startswith("memory:")


def request_file(url: str, run: str) -> Path:
    """Where settings for a running run are left.

    Raises:
        ProbeError: The store is no folder.
    """
    if not is_folder(url):
        raise ProbeError("settings of a running training need a store that is a folder; edit its configuration file")
    place = Path(url)
    return (place.parent if place.suffix == ".db" else place) / f"{run}.set.yaml"


def ask_for(file: Path, fields: Mapping[str, Any]) -> Config:
    """Nothing but a check of the fields against a default configuration; they are left for the run.

    Raises:
        ConfigError: A field is unknown, wrong, or cannot change under way.
    """
    for name in fields:
        if name in Config.model_fields and name not in CHANGEABLE:
            raise ConfigError(f"{name} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}")
    merged = {**(_read(file) if file.exists() else {}), **fields}
    checked = load_config(merged)
    waiting = file.with_suffix(f".{os.getpid()}.part")
    waiting.write_text(yaml.safe_dump(merged, sort_keys=False), encoding="utf-8")
    waiting.replace(file)
    return checked


def _read(file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"settings {file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"settings {file} must hold keys and values, got {type(found).__name__}")
    return found


def _stamp(file: Path | None) -> Stamp:
    if file is None:
        return None
    try:
        known = file.stat()
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size
