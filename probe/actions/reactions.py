"""What a training does between its steps: react to findings, save checkpoints, wait where a person asks for it."""

import importlib
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ...storage import Finding, FindingKey, StoreUnavailable, display_site
from ...storage.control_channel import ControlChannel
from ..configuration.config import Config
from ..configuration.reaction_settings import Reaction, pauses_of, saving
from ..errors import ConfigError, TrainingStopped
from ..guard import belongs_to_training
from .attachment import Attachment, TensorSource, pause_for

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
        """Save the state before this step and return its file; delete all but the newest of this rank."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{step:09d}{self._ending}"
        self._save(path)
        for old in sorted(self.folder.glob(f"step-*{self._ending}"))[:-keep]:
            old.unlink(missing_ok=True)
        _log.warning("the state before step %d is saved in %s", step, path)
        return path


def checkpoint_folder(url: str, run: str, folder: str | None) -> Path:
    """Return where the checkpoints of a run go.

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


_Deed = Callable[[Reaction, Finding], object]


class Reactions:
    """What is done about findings.

    Args:
        settings: In any order; what is done for one finding is done in the order checkpoint, callback, pause, stop.
        save: Saves the state of the training and keeps the newest so many.
        pause: Waits until somebody lets the training go on.

    Attributes:
        wants_findings: Whether there is anything to do about findings once they are there.

    Raises:
        ConfigError: A callback cannot be imported.
    """

    def __init__(
        self, settings: Sequence[Reaction], *, save: Callable[[int], object], pause: Callable[[Finding], object]
    ) -> None:
        self._save, self._pause = save, pause
        self._seen: set[FindingKey] = set()
        self._saved_at = -1
        self.follow(settings)

    def follow(self, settings: Sequence[Reaction]) -> None:
        """Replace the reactions from now on.

        Raises:
            ConfigError: A callback cannot be imported; what was done before is done still.
        """
        by_name: dict[str, Callable[[Reaction], _Deed]] = {
            "checkpoint": lambda _: self._checkpoint,
            "callback": lambda one: _calling(_found(one.call or "")),
            "pause": lambda _: lambda _, finding: self._pause(finding),
            "stop": lambda _: _stop,
        }
        self._deeds: list[tuple[Reaction, _Deed]] = [
            (one, make(one)) for name, make in by_name.items() for one in settings if one.do == name
        ]
        self.wants_findings = bool(self._deeds)

    def react(self, findings: Sequence[Finding]) -> None:
        """React to those findings that are new.

        Raises:
            TrainingStopped: If that is what was asked for.
        """
        self._carry_out(findings, self._deeds)

    def conclude(self, findings: Sequence[Finding]) -> None:
        """Call the callbacks for what the last record has shown; stopping and waiting no longer apply."""
        self._carry_out(findings, [(one, deed) for one, deed in self._deeds if one.do == "callback"])

    def _carry_out(self, findings: Sequence[Finding], deeds: Sequence[tuple[Reaction, _Deed]]) -> None:
        new = []
        for finding in findings:
            if finding.key not in self._seen:
                self._seen.add(finding.key)
                new.append(finding)
        for reaction, deed in deeds:
            for finding in new:
                if reaction.answers(finding):
                    deed(reaction, finding)

    def _checkpoint(self, reaction: Reaction, finding: Finding) -> None:
        if finding.step == self._saved_at:
            return
        self._saved_at = finding.step
        try:
            self._save(reaction.keep)
        except BaseException as error:
            if belongs_to_training(error):
                raise
            _log.exception("the checkpoint for %s at step %d failed", finding.cause, finding.step)


def _found(name: str) -> Callable[[Finding], object]:
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"on_finding: callback {name!r} cannot be imported: {error}") from error
    if not callable(function):
        raise ConfigError(f"on_finding: callback {name!r} must be a function, got {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def _calling(function: Callable[[Finding], object]) -> Callable[[Reaction, Finding], None]:
    def call(_: Reaction, finding: Finding) -> None:
        try:
            function(finding)
        except BaseException as error:
            if belongs_to_training(error):
                raise
            _log.exception("the callback for %s at step %d failed", finding.cause, finding.step)

    return call


def _stop(_: Reaction, finding: Finding) -> None:
    raise TrainingStopped(
        f"{finding.cause} at {display_site(finding.site)} since step {finding.first_step}: {finding.explanation}",
        finding,
    )


class SavableTraining(Protocol):
    """What can be saved, and looked into."""

    @property
    def view(self) -> TensorSource:
        """Its tensors."""

    @property
    def checkpoint_suffix(self) -> str:
        """Of the files that `save_state` writes."""

    def save_state(self, path: Path) -> None:
        """Save the state into the file."""


class StepActions:
    """Carries out, in the training's own thread, what is asked of it between its steps.

    Raises:
        ConfigError: A callback of the configuration cannot be imported.
    """

    def __init__(self, config: Config, training: SavableTraining) -> None:
        self._training, self._asked = training, config.on_finding
        self._reactions = Reactions(_reactions(config), save=self._save, pause=self._pause)
        self._attachment: Attachment | None = None
        self._checkpoints: Checkpoints | None = None
        self._step = self._state_before = 0

    def open(self, url: str, control_channel: ControlChannel, run: str, *, rank: int, look_s: float) -> None:
        """Set where checkpoints go and the control channel through which people send commands.

        Of several ranks only the first one listens to persons: the others wait for it in their next collective.
        """
        for one in saving(self._asked):
            folder, training = checkpoint_folder(url, run, one.folder), self._training
            self._checkpoints = Checkpoints(folder, training.save_state, training.checkpoint_suffix, rank)
        if rank == 0:
            self._attachment = Attachment(control_channel, self._training.view, look_s=look_s)

    @property
    def wants_findings(self) -> bool:
        """Whether there is anything to do about findings."""
        return self._reactions.wants_findings

    def follow(self, config: Config) -> None:
        """Replace the reactions to findings from now on.

        Raises:
            ConfigError: A callback cannot be imported.
        """
        self._reactions.follow(_reactions(config))

    def react(self, findings: Sequence[Finding], step: int, *, refused: int = -1) -> None:
        """React to new findings before this step.

        Args:
            refused: The step before, where its update was left out for good, so that the state is the one before it.

        Raises:
            TrainingStopped: If that is what was asked for.
        """
        self._step, self._state_before = step, step if refused < 0 else refused
        self._reactions.react(findings)

    def conclude(self, findings: Sequence[Finding]) -> None:
        """Call the callbacks for what the last record has shown."""
        self._reactions.conclude(findings)

    @property
    def acts_at_every_step(self) -> bool:
        """Whether a step may not pass without a look: findings have reactions, or a person counts the steps."""
        return self._reactions.wants_findings or (self._attachment is not None and self._attachment.counts_steps)

    @property
    def looks_at(self) -> float:
        """When to look for a command next, by `time.monotonic`."""
        return math.inf if self._attachment is None else self._attachment.looks_at

    def step_ended(self, step: int) -> bool:
        """Wait where a person asks for it; return whether the coming steps are counted one by one.

        Raises:
            TrainingStopped: They want it to end.
        """
        if self._attachment is None:
            return False
        self._attachment.step_ended(step)
        return self._attachment.counts_steps

    def _save(self, keep: int) -> None:
        if self._checkpoints is not None:
            self._checkpoints.save(self._state_before, keep)

    def _pause(self, finding: Finding) -> None:
        if self._attachment is not None:
            pause_for(self._attachment, self._step - 1, finding)


def _reactions(config: Config) -> tuple[Reaction, ...]:
    return (*config.on_finding, *pauses_of(config.watchpoints))
