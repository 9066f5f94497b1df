"""One trial in progress, as the training sees it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...storage import SEVERITIES, Finding, Json, Severity

if TYPE_CHECKING:
    import optuna

__all__ = ["Attempt"]


class Attempt:
    """What a training is given: it asks `trial` for its parameters, and is told when to stop.

    Attributes:
        trial: Optuna's own, to ask for parameters.
        number: Of the trial in its study.
        name: What the run must be called.
        pruned_by: Cause of the finding for which the training was told to stop, or `value`; empty while it was not.
        last: The value last reported, NaN before.
    """

    def __init__(self, trial: "optuna.Trial", number: int, study: str, prune_on: Severity | None) -> None:
        self.trial, self.number, self._study = trial, number, study
        self._severities = () if prune_on is None else SEVERITIES[SEVERITIES.index(prune_on) :]
        self.name = f"{study} {number}"
        self.pruned_by = ""
        self.last = float("nan")

    @property
    def tags(self) -> dict[str, Json]:
        """The parameters asked for so far, and which trial of which study this is."""
        return {**self.trial.params, "study": self._study, "trial": self.number}

    def report(self, step: int, value: float, findings: Iterable[Finding] = ()) -> bool:
        """Whether the training should stop: a finding is bad enough, or Optuna's pruner gives it up.

        Args:
            value: What the trial would return now.
            findings: Of its run so far, as `monitor.findings` has them.
        """
        self.last = float(value)
        self.trial.report(self.last, step)
        worst = next((one.cause for one in findings if one.severity in self._severities), None)
        self.pruned_by = worst or ("value" if self.trial.should_prune() else "")
        return bool(self.pruned_by)
