"""Changes of the configuration while a training runs: how they are found, checked and applied."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..storage.control_channel import (
    SETTINGS,
    ControlChannel,
    combined_settings,
    overlay_settings,
    request_settings,
    requested_settings,
)
from ..storage.records import Json
from .actions.reactions import StepActions
from .adapters import Adapter
from .configuration.config import Config
from .configuration.config_loading import examine, load_config
from .errors import ConfigError
from .recording.recorder import Recorder

__all__ = ["CHANGEABLE", "ChangeWatcher", "ConfigChange", "request_change"]


#: Fields that take effect at the next step; the others belong to the start of a run.
CHANGEABLE: Final = ("every", "subjects", "histograms", "modules", "types", "depth", "exclude", "watchpoints")

Stamp = tuple[int, int] | None
#: The settings of one `mindscope set`; None for an edit of the configuration file.
SettingsRequest = Mapping[str, object] | None  # Any: plain values, which the configuration checks


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change that the configuration allows; it takes effect once it is kept.

    Args:
        config: The whole configuration after the change.
        below: The configuration under `mindscope set`: the one of the start, or of the file.
        fields: The fields of `mindscope set`.
        shadowed: Keys that the file has changed without effect, since `mindscope set` overrides them.
    """

    config: Config
    below: Config
    fields: Mapping[str, object]
    shadowed: tuple[str, ...] = ()


class ChangeWatcher:
    """Looks for requested changes of the configuration.

    Args:
        config: The current configuration.
        source: The file of the configuration, if it has one.
        control_channel: The channel that `mindscope set` writes to.
        look_s: Seconds between two looks.
    """

    def __init__(
        self,
        config: Config,
        source: Path | None,
        control_channel: ControlChannel,
        *,
        look_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._look_s = clock, look_s
        self._now = ConfigChange(config, config, {})
        self._source, self._control_channel = source, control_channel
        self._stamps: tuple[Stamp, object] = (_stamp(source), None)
        self._seen: tuple[SettingsRequest, ...] = ()
        self._looked = clock()

    @property
    def looks_at(self) -> float:
        """When the next look is due, by the clock."""
        return self._looked + self._look_s

    def look(self) -> tuple[SettingsRequest, ...]:
        """Return the requests since the last look, each to be judged; each is returned once.

        Raises:
            StoreUnavailable: The store cannot be asked at present, or what lies there is no settings.
        """
        if self._clock() < self.looks_at:
            return ()
        self._looked = self._clock()
        before, self._stamps = self._stamps, (_stamp(self._source), self._control_channel.stamp(SETTINGS))
        is_edited = self._stamps[0] not in (None, before[0])
        left: tuple[SettingsRequest, ...] = ()
        if self._stamps[1] != before[1]:
            left = self._left()
        return (None, *left) if is_edited else left

    def judge(self, request: SettingsRequest) -> ConfigChange:
        """Return the change that the request makes to the current configuration.

        Raises:
            ConfigError: It is wrong or cannot be made under way.
        """
        now = self._now
        below = load_config(self._source) if request is None else now.below
        fields = now.fields if request is None else overlay_settings(now.fields, request)
        found = load_config(overlay_settings(below.model_dump(exclude_unset=True), fields))
        fixed = [name for name in type(found).model_fields if name not in CHANGEABLE]
        changed = [name for name in fixed if getattr(found, name) != getattr(now.config, name)]
        if changed:
            raise ConfigError(
                f"{', '.join(changed)} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}"
            )
        old, new = (config.model_dump(mode="json", exclude_unset=True) for config in (now.below, below))
        return ConfigChange(found, below, fields, tuple(_shadowed(old, new, fields)))

    def keep(self, change: ConfigChange) -> None:
        """Make the change the base of later ones."""
        self._now = change

    def _left(self) -> tuple[SettingsRequest, ...]:
        """Return the settings behind those already seen; all of them where they were replaced."""
        changes = requested_settings(self._control_channel)
        number = len(self._seen)
        if changes[:number] != self._seen:
            self._now, number = ConfigChange(self._now.config, self._now.below, {}), 0
        self._seen = changes
        return changes[number:]


_log = logging.getLogger(__name__)


class Reconfiguration:
    """Applies the requested changes of the configuration to the recording.

    Args:
        run: Its id.

    Attributes:
        control: Looks for changes.
    """

    def __init__(
        self, control: ChangeWatcher, recorder: Recorder, adapter: Adapter, standby: StepActions, run: str
    ) -> None:
        self.control = control
        self._recorder, self._adapter, self._standby, self._run = recorder, adapter, standby, run
        self._failed_look = ""

    def follow(self) -> None:
        """Make the requested changes, one after the other."""
        try:
            requests = self.control.look()
        except Exception as error:  # noqa: BLE001  nothing that others leave for a run may stop it
            if str(error) != self._failed_look:  # said once: it is looked for again every second
                self._failed_look = str(error)
                self._refuse(error)
            return
        try:
            for request in requests:
                self._change(request)
        except Exception as error:  # noqa: BLE001  as above
            self._refuse(error)

    def _change(self, request: SettingsRequest) -> None:
        """Make the requested change, or report why not."""
        recorder = self._recorder
        before = recorder.config
        try:
            change = self.control.judge(request)
            if change.config != before:
                recorder.follow(change.config)
                self._adapter.reselect()
                self._standby.follow(change.config)
        except Exception as error:  # noqa: BLE001  as above
            recorder.follow(before)
            self._refuse(error)
            return
        self.control.keep(change)
        if change.config != before:
            recorder.event("configuration_changed", "", **differences(before, change.config))
            _log.info("run %s: the configuration has changed", self._run)
        if change.shadowed:
            self._report_shadowed(change.shadowed)

    def _refuse(self, error: Exception) -> None:
        _log.warning("run %s: the change is refused: %s", self._run, error)
        self._recorder.event("configuration_refused", error=str(error))

    def _report_shadowed(self, keys: Sequence[str]) -> None:
        remedy = " ".join(("mindscope set", self._run, *(f"{key}={{}}" for key in keys)))
        _log.warning(
            "run %s: the file has changed %s, where what was set holds; %s takes that back",
            self._run,
            ", ".join(keys),
            remedy,
        )
        self._recorder.event("configuration_shadowed", keys=[*keys], remedy=remedy)


def differences(before: Config, after: Config) -> dict[str, Json]:
    """Return the fields that changed, with their new values, as JSON; of schedules only the keys that are set."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    schedules = after.model_dump(mode="json", exclude_unset=True, include={"subjects"})
    return {name: schedules.get(name, value) for name, value in new.items() if value != old[name]}


def request_change(control_channel: ControlChannel, fields: Mapping[str, object]) -> None:
    """Leave the request for the training, after earlier ones.

    Whether it agrees with the run's own configuration is seen where that is, by the training.

    Raises:
        ConfigError: A field is unknown, wrong, or cannot change under way; nothing is asked for.
        StoreUnavailable: It cannot be left for the run.
    """
    for name in fields:
        if name in Config.model_fields and name not in CHANGEABLE:
            raise ConfigError(f"{name} cannot change while a training runs; what can is {', '.join(CHANGEABLE)}")
    unknown = {name: value for name, value in fields.items() if name not in Config.model_fields}
    mistakes = _mistakes({**combined_settings([fields]), **unknown})
    if mistakes and _mistakes({**combined_settings([*requested_settings(control_channel), fields]), **unknown}):
        raise ConfigError(f"configuration: {'; '.join(mistakes)}", mistakes)
    request_settings(control_channel, fields)


def _mistakes(fields: Mapping[str, object]) -> tuple[str, ...]:
    return examine(fields, is_part=True)[1]


def _shadowed(old: Mapping[str, object], new: Mapping[str, object], above: Mapping[str, object]) -> Iterator[str]:
    """Yield the dotted keys whose values differ below and are overridden above."""
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
