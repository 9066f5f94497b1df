"""Changes of the configuration that are made while a training runs, or refused and told."""

import logging
from collections.abc import Sequence

from .actions.standby import Standby
from .adapters import Adapter
from .configuration.control import Asked, Control, differences
from .recording.recorder import Recorder

_log = logging.getLogger(__name__)


class Reconfiguration:
    """Has what is recorded follow the changes that a control sees.

    Args:
        run: Its id.

    Attributes:
        control: Looks for changes.
    """

    def __init__(self, control: Control, recorder: Recorder, adapter: Adapter, standby: Standby, run: str) -> None:
        self.control = control
        self._recorder, self._adapter, self._standby, self._run = recorder, adapter, standby, run

    def follow(self) -> None:
        """Nothing; changes that were asked for are made, one after the other."""
        try:
            for asked in self.control.look():
                self._change(asked)
        except Exception as error:  # noqa: BLE001  nothing that others leave for a run may stop it
            self._refuse(error)

    def _change(self, asked: Asked) -> None:
        """Makes the change that is asked for, or says why not."""
        recorder = self._recorder
        before = recorder.config
        try:
            change = self.control.judge(asked)
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
            recorder.event("configuration_changed", **differences(before, change.config))
            _log.info("run %s: the configuration has changed", self._run)
        if change.shadowed:
            self._tell_shadowed(change.shadowed)

    def _refuse(self, error: Exception) -> None:
        _log.warning("run %s: the change is refused: %s", self._run, error)
        self._recorder.event("configuration_refused", error=str(error))

    def _tell_shadowed(self, keys: Sequence[str]) -> None:
        remedy = " ".join(("mindscope set", self._run, *(f"{key}={{}}" for key in keys)))
        _log.warning(
            "run %s: the file has changed %s, where what was set holds; %s takes that back",
            self._run,
            ", ".join(keys),
            remedy,
        )
        self._recorder.event("configuration_shadowed", keys=[*keys], remedy=remedy)
