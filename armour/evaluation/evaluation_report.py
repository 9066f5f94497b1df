"""The result of an evaluation: the accuracy under every attack, as numbers and as a table."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...storage import Outcome
from ...storage.evaluation_verdict import WORST_CASE, Symptom
from ..model import Asks


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Outcomes of attacks times budgets.

    Args:
        outcomes: By attack in the order they were run, then epsilon; those of `WORST_CASE` last.
        samples: Number of inputs, those wrong from the start among them.
        run: Id of the stored run, empty without a store.
        masking: Signs that gradients are hidden and the accuracies too good to be true; empty when there is none.
        gap: By epsilon, the share of samples that some attack defeats and plain PGD with 40 steps does not: what a
            report by PGD alone would claim too much. Empty when the evaluation was interrupted.
        median_minimum_norm: Distance within which half of the samples fall, as found by any attack at any budget; 0
            where wrong from the start, infinite when more than half resist.
        warnings: What is possible and hardly meant: budgets on the wrong scale, a clean accuracy below a guess's,
            a model left in training mode.
        answers: What the model answered with: gradients, logits, or decisions alone.
        interrupted: True when the user stopped it; `outcomes` is then what was complete.
    """

    outcomes: tuple[Outcome, ...]
    clean_accuracy: float
    samples: int
    norm: str
    run: str = ""
    interrupted: bool = False
    masking: tuple[Symptom, ...] = ()
    gap: Mapping[float, float] = field(default_factory=dict)
    median_minimum_norm: float = math.nan
    warnings: tuple[str, ...] = ()
    answers: Asks = "gradients"

    @property
    def is_trusted(self) -> bool:
        """Whether the evaluation is complete and shows no sign of hidden gradients."""
        return not self.masking and not self.interrupted

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks in the order they were run, the worst case last."""
        return tuple(dict.fromkeys(outcome.attack for outcome in self.outcomes))

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets, ascending, from 0."""
        return tuple(sorted({outcome.epsilon for outcome in self.outcomes}))

    def accuracy(self, attack: str = WORST_CASE) -> dict[float, float]:
        """Return the accuracy by epsilon under that attack, at the budgets at which it was run."""
        return {
            outcome.epsilon: outcome.accuracy
            for outcome in self.outcomes
            if outcome.attack == attack and not math.isnan(outcome.accuracy)
        }

    @property
    def intervals(self) -> dict[float, tuple[float, float]]:
        """By epsilon, the 95 % interval of the accuracy of a random model in the worst case; empty without chance."""
        found: dict[float, tuple[float, float]] = {}
        for outcome in self.outcomes:
            match outcome.details.get("interval"):
                case [float(low), float(high)] if outcome.attack == WORST_CASE:
                    found[outcome.epsilon] = (low, high)
        return found

    def table(self) -> str:
        """Return accuracy against epsilon as a text table, one line an attack; `-` where it was not run."""
        rows = [["attack", *(f"{epsilon:g}" for epsilon in self.epsilons)]]
        for attack in self.attacks:
            accuracy = self.accuracy(attack)
            cells = (f"{accuracy[epsilon]:.3f}" if epsilon in accuracy else "-" for epsilon in self.epsilons)
            rows.append([attack, *cells])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            row[0].ljust(widths[0])
            + "".join("  " + cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            for row in rows
        ]
        lines += [
            f"the model answers at random: at epsilon {epsilon:g} its accuracy is {low:.3f} to {high:.3f} (95 %)"
            for epsilon, (low, high) in list(self.intervals.items())[-1:]
        ]
        not_run = {outcome.attack: str(outcome.details["reason"]) for outcome in self.outcomes if _did_not_run(outcome)}
        lines += [f"{attack} was not run at every epsilon: {reason}" for attack, reason in not_run.items()]
        heading = f"accuracy of {self.samples} samples within epsilon ({self.norm})"
        if math.isfinite(self.median_minimum_norm):
            lines.append(_median(self.median_minimum_norm))
        if self.gap and max(self.gap.values()) > 0:
            at, most = max(self.gap.items(), key=lambda pair: pair[1])
            lines.append(f"PGD alone, 40 steps from one start, would report {most:.3f} more at epsilon {at:g}")
        if self.answers != "gradients":
            lines.append("the model gave no gradients: an attacker who has them may find more")
        doubts = [
            f"do not trust these numbers ({symptom.name} {symptom.value:.3g}): {symptom.explanation}"
            for symptom in self.masking
        ]
        return "\n".join([heading + (", interrupted" if self.interrupted else ""), *lines, *doubts])

    def __str__(self) -> str:
        return self.table()


def _did_not_run(outcome: Outcome) -> bool:
    return outcome.details.get("kind") == "not-run"


def _median(norm: float) -> str:
    if norm == 0:
        return "half of the samples or more are misclassified without an attack"
    return f"half of the samples are misclassified within epsilon {norm:.4g}"
