"""Whether the accuracies of a stored evaluation can be trusted, and why not."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .records import Json, Outcome

#: The attack's name under which the worst case over all attacks is stored.
WORST_CASE: Final = "worst-case"


@dataclass(frozen=True, slots=True)
class Symptom:
    """One indicator that a robust accuracy is too good to be true.

    Args:
        name: Of gradients `zero-gradient`, `gradient-mismatch`, `unbounded-attack`, `flat-loss` or
            `black-box-stronger`; of answers `logit-scale`, `randomness`, `batch-dependence` or `state`; of predictors
            with a budget `queries-exhausted`.
        value: What was measured; NaN where only the name was stored.
        explanation: What it means, and what to run next.
    """

    name: str
    value: float
    explanation: str


@dataclass(frozen=True, slots=True)
class EvaluationVerdict:
    """What a stored evaluation says of a model.

    Args:
        worst_case: One outcome for each norm and budget, ascending.
        is_trusted: None if nobody has judged: the evaluation did not come to its end.
        doubts: Why it is not to be trusted.
        remarks: What was done to the model, and what is hardly meant.
    """

    worst_case: tuple[Outcome, ...]
    is_trusted: bool | None
    doubts: tuple[Symptom, ...]
    remarks: tuple[str, ...]

    @property
    def words(self) -> str:
        """The verdict in a few words."""
        if self.is_trusted is None:
            return "not judged"
        return "credible" if self.is_trusted else "do not trust these numbers"


def evaluation_verdict(outcomes: Iterable[Outcome]) -> EvaluationVerdict | None:
    """Return the verdict of an evaluation's outcomes; None where no attack is among them."""
    worst = [outcome for outcome in outcomes if outcome.attack == WORST_CASE]
    if not worst:
        return None
    worst.sort(key=lambda outcome: (outcome.norm, outcome.epsilon))
    judged = [outcome for outcome in worst if "masking" in outcome.details]
    doubts = dict.fromkeys(doubt for outcome in judged for doubt in doubts_of(outcome))
    remarks = dict.fromkeys(
        text for outcome in judged for name in ("warnings", "notes") for text in _texts(outcome.details.get(name))
    )
    is_trusted = not doubts if len(judged) == len(worst) else None
    return EvaluationVerdict(tuple(worst), is_trusted, tuple(doubts), tuple(remarks))


def doubts_of(judged: Outcome) -> tuple[Symptom, ...]:
    """Return the doubts of a worst case: with their values and explanations, or by name where no more is stored."""
    verdict = judged.details.get("verdict")
    reasons = verdict if isinstance(verdict, list | tuple) else ()
    named = tuple(_doubt(reason) for reason in reasons if isinstance(reason, Mapping))
    return named or tuple(_doubt({"name": name}) for name in _texts(judged.details.get("masking")))


def _doubt(reason: Mapping[str, Json]) -> Symptom:
    value = reason.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Symptom(
        str(reason.get("name", "")),
        float(value) if is_number else math.nan,  # type: ignore[arg-type]  # a number
        str(reason.get("explanation", "no explanation was stored")),
    )


def _texts(values: object) -> Sequence[str]:
    return [str(value) for value in values] if isinstance(values, list | tuple) else []
