"""Changes of the configuration while a training runs: an edited file, or settings that `mindscope set` has left.

Both are looked at a few times a second by their stamps. `mindscope set` leaves fields that are laid over the
configuration, key by key and call by call, in the run's mailbox: in a folder the file `<run>.set.yaml`. Each change is
judged by itself, in the order in which it was asked for. One that is wrong, or that cannot be made under way, is
refused with one warning and an event; what was before stays, and what comes after is laid over that.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...storage.mail.mailbox import Mailbox
from ...storage.mail.settings import SETTINGS, changes_of, laid_over, leave, together
from ..errors import ConfigError
from .config import Config
from .load import examine, load_config

__all__ = ["CHANGEABLE", "Change", "Control", "ask_for"]

#: Fields that take effect at the next step; the others belong to the start of a run.
CHANGEABLE: Final = ("every", "subjects", "histograms", "modules", "types", "depth", "exclude", "watchpoints")

Stamp = tuple[int, int] | None
#: What one `mindscope set` has left; None for the file, which was edited.
Asked = Mapping[str, Any] | None  # Any: plain values, which the configuration checks


@dataclass(frozen=True, slots=True)
class Change:
    """A change that the configuration allows, and that holds once it is kept.

    Args:
        config: All that is recorded with it.
        below: What `mindscope set` is laid over: the configuration of the beginning, or the file's.
        fields: What is laid over it.
        shadowed: Keys that the file has changed in vain, since they are set.
    """

    config: Config
    below: Config
    fields: Mapping[str, Any]
    shadowed: tuple[str, ...] = ()


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
        self._clock, self._look_s = clock, look_s
        self._now = Change(config, config, {})
        self._source, self._mailbox = source, mailbox
        self._stamps: tuple[Stamp, object] = (_stamp(source), None)
        self._seen: tuple[Asked, ...] = ()
        self._looked = clock()

    def is_time(self) -> bool:
        """Whether the last look is long enough ago."""
        return self._clock() - self._looked >= self._look_s

    def look(self) -> tuple[Asked, ...]:
        """What was asked for since the last look, each to be judged; none of it is asked about again.

        Raises:
            StoreUnavailable: The store cannot be asked at present, or what lies there is no settings.
        """
        if not self.is_time():
            return ()
        self._looked = self._clock()
        before, self._stamps = self._stamps, (_stamp(self._source), self._mailbox.stamp(SETTINGS))
        is_edited = self._stamps[0] not in (None, before[0])
        left: tuple[Asked, ...] = ()
        if self._stamps[1] != before[1]:
            left = self._left()
        return (None, *left) if is_edited else left

    def judge(self, asked: Asked) -> Change:
        """The change that this makes of what holds now.

        Raises:
            ConfigError: It is wrong or cannot be made under way.
        """
        now = self._now
        below = load_config(self._source) if asked is None else now.below
        fields = now.fields if asked is None else laid_over(now.fields, asked)
        found = load_config(laid_over(below.model_dump(exclude_unset=True), fields))
        fixed = [name for name in type(found).model_fields if name not in CHANGEABLE]
        changed = [name for name in fixed if getattr(found, name) != getattr(now.config, name)]
        if changed:
            raise ConfigError(
                f"{', '.join(changed)} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}"
            )
        old, new = (one.model_dump(mode="json", exclude_unset=True) for one in (now.below, below))
        return Change(found, below, fields, tuple(_shadowed(old, new, fields)))

    def keep(self, change: Change) -> None:
        """Nothing; it has been made, and later ones are laid over it."""
        self._now = change

    def _left(self) -> tuple[Asked, ...]:
        """What lies behind the settings that were seen; all of it where others lie in their place."""
        changes = changes_of(self._mailbox)
        number = len(self._seen)
        if changes[:number] != self._seen:
            self._now, number = Change(self._now.config, self._now.below, {}), 0
        self._seen = changes
        return changes[number:]


def differences(before: Config, after: Config) -> dict[str, Any]:
    """The fields that changed, with their new values, as JSON."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return {name: value for name, value in new.items() if value != old[name]}


def ask_for(mailbox: Mailbox, fields: Mapping[str, Any]) -> None:
    """Nothing; what is asked for lies where the training finds it, behind what was asked for until now.

    Whether it agrees with the run's own configuration is seen where that is, by the training.

    Raises:
        ConfigError: A field is unknown, wrong, or cannot change under way; nothing is asked for.
        StoreUnavailable: It cannot be left for the run.
    """
    for name in fields:
        if name in Config.model_fields and name not in CHANGEABLE:
            raise ConfigError(f"{name} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}")
    unknown = {name: value for name, value in fields.items() if name not in Config.model_fields}
    mistakes = _mistakes({**together([fields]), **unknown})
    if mistakes and _mistakes({**together([*changes_of(mailbox), fields]), **unknown}):
        raise ConfigError(f"configuration: {'; '.join(mistakes)}", mistakes)
    leave(mailbox, fields)


def _mistakes(fields: Mapping[str, Any]) -> tuple[str, ...]:
    return examine(fields, is_part=True)[1]


def _shadowed(old: Mapping[str, Any], new: Mapping[str, Any], above: Mapping[str, Any]) -> Iterator[str]:
    """The keys, dots leading into them, whose values differ below and are set to something else above."""
    for name, value in above.items():
        before, after = old.get(name), new.get(name)
        if before == after or after == value:
            continue
        if isinstance(value, Mapping) and isinstance(after, Mapping):
            inner = before if isinstance(before, Mapping) else {}
            yield from (f"{name}.{key}" for key in _shadowed(inner, after, value))
        else:
            yield name


def _stamp(file: Path | None) -> Stamp:
    if file is None:
        return None
    try:
        known = file.stat()
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size
