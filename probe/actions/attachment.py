"""A running training that a person may halt at the end of a step, look into, and let go on.

This is the training's side; `storage/control_channel.py` has the person's, and what the two say to each other.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage import Finding, StoreError
from ...storage.control_channel import COMMAND, STATE, ControlChannel, TrainingState
from ..errors import TrainingStopped

_log = logging.getLogger(__name__)

#: How often a running training looks for a command: a stat call; and a waiting one, so that a person sees no delay.
LOOK_S, _WAIT_S = 0.2, 0.05
#: The same for a store in a database, where a look is a query of half a millisecond.
DATABASE_LOOK_S: Final = 1.0
#: Values of a tensor that are shown; more belongs into a dump.
_SHOWN = 64


class TensorSource(Protocol):
    """What can be looked at."""

    def arrays(self, subject: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Return site and values of every `weight` or `gradient`."""


class Attachment:
    """The training's side; called at the end of every step.

    Args:
        control_channel: Of the run.
        view: Where tensors are found.
        look_s: How often to look for a command.
        clock: Seconds; only differences count.
        sleep: Waits.
    """

    def __init__(
        self,
        control_channel: ControlChannel,
        view: TensorSource,
        *,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._control_channel, self._view, self._clock, self._sleep = control_channel, view, clock, sleep
        self._looked, self._look_s = clock(), look_s
        self._stamp = control_channel.stamp(COMMAND)
        self._obeyed = 0
        self._left: int | None = None  # steps until it waits again
        self._left_after = -1  # the step at whose end they were asked for
        self._answer: dict[str, object] = {}

    @property
    def looks_at(self) -> float:
        """When to look for a command next, by the clock."""
        return self._looked + self._look_s

    @property
    def counts_steps(self) -> bool:
        """Whether the training goes on for so many steps only."""
        return self._left is not None

    def step_ended(self, step: int) -> None:
        """Wait here for as long as a person wants the training to.

        Raises:
            TrainingStopped: They want it to end.
        """
        if self._left is not None:
            self._left -= step > self._left_after
            if self._left <= 0:
                self.wait(step, "the steps that were asked for are done")
            return
        now = self._clock()
        if now >= self.looks_at:
            self._looked = now
            if self._obey(step) == "pause":
                self.wait(step, "a person asked for it")

    def wait(self, step: int, why: str) -> None:
        """Halt the training until it is told to continue.

        Raises:
            TrainingStopped: It is told to end.
        """
        _log.warning("the training waits after step %d: %s; `mindscope attach` lets it go on", step, why)
        self._left = None
        self._tell("paused", step, why)
        while (done := self._obey(step, paused_because=why)) not in ("step", "continue"):
            if done is None:
                self._sleep(_WAIT_S)
        self._tell("running", step, "")

    def _obey(self, step: int, *, paused_because: str | None = None) -> str | None:
        """Carry out a new command and return its name; None when there is none."""
        command = self._next()
        if command is None:
            return None
        do = str(command.get("do", ""))
        self._obeyed = _whole(command.get("number"), self._obeyed + 1)
        self._answer = {}
        if do == "stop":
            self._tell("stopped", step, "a person asked for it")
            raise TrainingStopped(f"a person stopped the training after step {step}")
        if do == "step":
            self._left, self._left_after = max(_whole(command.get("steps"), 1), 1), step
        elif do == "show":
            self._answer = self._shown(str(command.get("subject", "weight")), str(command.get("sites", "*")))
        if paused_because is not None:
            self._tell("paused", step, paused_because)
        elif do != "pause":
            self._tell("running", step, "")
        return do

    def _next(self) -> Mapping[str, object] | None:
        try:
            stamp = self._control_channel.stamp(COMMAND)
            if stamp == self._stamp:
                return None
            self._stamp = stamp
            return self._control_channel.read(COMMAND)
        except StoreError as error:
            _log.warning("a command cannot be read: %s", error)
            return None

    def _tell(self, state: str, step: int, why: str) -> None:
        message = TrainingState(state, step, why, self._obeyed, self._answer)
        try:
            self._control_channel.post(STATE, asdict(message))
        except StoreError as error:
            _log.warning("the state of the training cannot be posted: %s", error)

    def _shown(self, subject: str, sites: str) -> dict[str, object]:
        if subject not in ("weight", "gradient"):
            return {"error": f"{subject!r} is not kept between steps; weight and gradient are"}
        try:
            arrays = self._view.arrays(subject)
            return {site: _description(array) for site, array in arrays if fnmatchcase(site, sites)}
        except Exception as error:  # noqa: BLE001  a look at a tensor must not end the training
            return {"error": f"{type(error).__name__}: {error}"}


def pause_for(attachment: Attachment, step: int, finding: Finding) -> None:
    """Halt the training because of the finding."""
    attachment.wait(step, f"{finding.rule} at step {finding.step}: {finding.explanation}")


def _whole(value: object, default: int) -> int:
    """Return the number that a command holds; the default where it holds none."""
    return value if isinstance(value, int) else default


def _description(array: NDArray[Any]) -> dict[str, object]:
    """Describe a tensor as a page or a terminal shows it."""
    values = np.asarray(array, dtype=np.float64)
    finite = values[np.isfinite(values)]
    numbers = (
        {"min": finite.min(), "max": finite.max(), "mean": finite.mean(), "std": finite.std()} if finite.size else {}
    )
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        **{name: float(value) for name, value in numbers.items()},
        "nans": int(np.isnan(values).sum()),
        "infs": int(np.isinf(values).sum()),
        "values": values.ravel()[:_SHOWN].tolist(),
    }
