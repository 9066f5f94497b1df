"""What findings and persons may ask of a running training: to be saved, halted, looked into, let go on, or ended."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...storage import Finding
from ...storage.mail.mailbox import Mailbox
from ..configuration.config import Config
from ..configuration.reactions import Reaction, pauses_of, saving
from .attachment import Arrays, Attachment, pause_for
from .checkpoints import Checkpoints, checkpoint_folder
from .reactions import Reactions


class Training(Protocol):
    """What can be saved, and looked into."""

    @property
    def view(self) -> Arrays:
        """Its tensors."""

    @property
    def checkpoint_suffix(self) -> str:
        """Of the files that `save_state` writes."""

    def save_state(self, path: Path) -> None:
        """Nothing; the file holds the state."""


class Standby:
    """Carries out, in the training's own thread, what is asked of it between its steps.

    Raises:
        ConfigError: A callback of the configuration cannot be imported.
    """

    def __init__(self, config: Config, training: Training) -> None:
        self._training, self._asked = training, config.on_finding
        self._reactions = Reactions(_reactions(config), save=self._save, pause=self._pause)
        self._attachment: Attachment | None = None
        self._checkpoints: Checkpoints | None = None
        self._step = self._state_before = 0

    def open(self, url: str, mailbox: Mailbox, run: str, *, rank: int, look_s: float) -> None:
        """Nothing; there is a run from now on: a place for checkpoints, and a mailbox in which persons leave commands.

        Of several ranks only the first one listens to persons: the others wait for it in their next collective.
        """
        for one in saving(self._asked):
            folder, training = checkpoint_folder(url, run, one.folder), self._training
            self._checkpoints = Checkpoints(folder, training.save_state, training.checkpoint_suffix, rank)
        if rank == 0:
            self._attachment = Attachment(mailbox, self._training.view, look_s=look_s)

    @property
    def wants_findings(self) -> bool:
        """Whether there is anything to do about findings."""
        return self._reactions.wants_findings

    def follow(self, config: Config) -> None:
        """Nothing; this is what is done about findings from now on.

        Raises:
            ConfigError: A callback cannot be imported.
        """
        self._reactions.follow(_reactions(config))

    def react(self, findings: Sequence[Finding], step: int, *, refused: int = -1) -> None:
        """Nothing; what is to be done about new findings is done before this step.

        Args:
            refused: The step before, where its update was left out for good, so that the state is the one before it.

        Raises:
            TrainingStopped: If that is what was asked for.
        """
        self._step, self._state_before = step, step if refused < 0 else refused
        self._reactions.react(findings)

    def conclude(self, findings: Sequence[Finding]) -> None:
        """Nothing; callbacks hear of what the last record has shown."""
        self._reactions.conclude(findings)

    def is_at_rest(self) -> bool:
        """Whether nothing can have been asked for since the last look."""
        return not self._reactions.wants_findings and (self._attachment is None or self._attachment.is_at_rest())

    def step_ended(self, step: int) -> bool:
        """Whether the steps that come are counted one by one; a person may make the training wait here.

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
