"""Changes of the configuration while a training runs: an edited file, or settings that `mindscope set` has left.

Both are looked at a few times a second by their stamps. `mindscope set` leaves fields that are laid over the
configuration, key by key and call by call, in the run's mailbox: in a folder the file `<run>.set.yaml`. A change that
is wrong, or that cannot be made under way, is refused with one warning and an event; what was before stays.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ...storage.commands import SETTINGS
from ...storage.mailbox import Mailbox
from ..errors import ConfigError
from .config import Config
from .load import examine, load_config

__all__ = ["CHANGEABLE", "Control", "ask_for"]

#: Fields that take effect at the next step; the others belong to the start of a run.
CHANGEABLE: Final = ("every", "subjects", "histograms", "modules", "types", "depth", "exclude", "watchpoints")

Stamp = tuple[int, int] | None


class Control:
    """Looks for changes.

    Args:
        config: What is recorded now.
        source: The file that the configuration came from, if it came from one.
        mailbox: Where `mindscope set` leaves what it was asked for.
        look_s: How often to look.
    """

    def __init__(
        self,
        config: Config,
        source: Path | None,
        mailbox: Mailbox,
        *,
        look_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._clock, self._look_s = config, clock, look_s
        self._below = config  # what `mindscope set` is laid over: the configuration of the beginning, or the file's
        self._source, self._mailbox = source, mailbox
        self._stamps: tuple[Stamp, object] = (_stamp(source), None)
        self._looked = clock()

    def is_time(self) -> bool:
        """Whether the last look is long enough ago."""
        return self._clock() - self._looked >= self._look_s

    def look(self) -> Config | None:
        """The new configuration, if one was asked for since the last look.

        Raises:
            ConfigError: One was, and it is wrong or cannot be made under way; it is not asked about again.
            StoreUnavailable: The store cannot be asked at present.
        """
        if not self.is_time():
            return None
        self._looked = self._clock()
        stamps = (_stamp(self._source), self._mailbox.stamp(SETTINGS))
        if stamps == self._stamps:
            return None
        self._stamps = stamps
        below = load_config(self._source) if stamps[0] is not None else self._below
        asked = self._mailbox.read(SETTINGS) or {}
        asked = {name: value for name, value in asked.items() if value != {}}  # cleared, by `mindscope set key={}`
        found = load_config(_laid_over(below.model_dump(exclude_unset=True), asked))
        fixed = [name for name in type(found).model_fields if name not in CHANGEABLE]
        changed = [name for name in fixed if getattr(found, name) != getattr(self._config, name)]
        if changed:
            raise ConfigError(
                f"{', '.join(changed)} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}"
            )
        self._below = below
        if found == self._config:
            return None
        self._config = found
        return found


def differences(before: Config, after: Config) -> dict[str, Any]:
    """The fields that changed, with their new values, as JSON."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return {name: value for name, value in new.items() if value != old[name]}


def ask_for(mailbox: Mailbox, fields: Mapping[str, Any]) -> Config:
    """What was asked for until now and is asked for from now on, over a default configuration.

    Whether it agrees with the run's own configuration is seen where that is, by the training.

    Raises:
        ConfigError: A field is unknown, wrong, or cannot change under way; nothing is asked for.
        StoreUnavailable: It cannot be left for the run.
    """
    for name in fields:
        if name in Config.model_fields and name not in CHANGEABLE:
            raise ConfigError(f"{name} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}")
    merged = _laid_over(mailbox.read(SETTINGS) or {}, fields)
    checked, mistakes = examine(merged, is_part=True)
    if checked is None or mistakes:
        raise ConfigError(f"configuration: {'; '.join(mistakes)}", mistakes)
    mailbox.post(SETTINGS, merged)
    return checked


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of both; where both have keys below a key these are laid over each other, and `{}` is none of them."""
    merged = dict(below)
    for name, value in above.items():
        inner = merged.get(name)
        if isinstance(value, Mapping) and value and isinstance(inner, Mapping):
            merged[name] = _laid_over(inner, value)
        else:
            merged[name] = value
    return merged


def _stamp(file: Path | None) -> Stamp:
    if file is None:
        return None
    try:
        known = file.stat()
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size
