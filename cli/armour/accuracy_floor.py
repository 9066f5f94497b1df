"""`--fail-under 0.4` or `--fail-under 0.4@8/255`: the accuracy under attack that a pipeline asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..failures import WrongUse
from .armour_arguments import number, split

if TYPE_CHECKING:
    from ...armour import Evaluation


@dataclass(frozen=True, slots=True)
class Floor:
    """The least worst-case accuracy, 0 to 1, at a budget."""

    accuracy: float
    epsilon: float


def floors_in(words: Sequence[str], budgets: Sequence[float]) -> list[Floor]:
    """Parse floors; one that names no budget is meant at the largest.

    Raises:
        WrongUse: An accuracy is not between 0 and 1, or a budget is not among those of the evaluation.
    """
    return [_floor(word, budgets) for word in split(words)]


def _floor(word: str, budgets: Sequence[float]) -> Floor:
    accuracy, at, epsilon = word.partition("@")
    try:
        floor = Floor(number(accuracy), number(epsilon) if at else max(budgets, default=0.0))
    except ValueError:
        raise WrongUse(f"--fail-under expects an accuracy, as in 0.4 or 0.4@8/255; got {word!r}") from None
    if not 0 <= floor.accuracy <= 1:
        raise WrongUse(f"--fail-under expects an accuracy from 0 to 1, got {accuracy}")
    if at and floor.epsilon not in (0.0, *budgets):
        known = ", ".join(f"{budget:g}" for budget in sorted({0.0, *budgets}))
        raise WrongUse(f"--fail-under names the budget {epsilon}; --epsilons has {known}")
    return floor


def failures(found: "Evaluation", floors: Sequence[Floor]) -> Iterator[str]:
    """Yield a sentence for each reason why a pipeline must not pass."""
    if not found.is_trusted:
        signs = ", ".join(symptom.name for symptom in found.masking)
        yield f"these accuracies are not to be trusted ({signs})"
    worst = found.accuracy()
    for floor in floors:
        left = worst.get(floor.epsilon)
        if left is None or left < floor.accuracy:
            had = "nothing was measured" if left is None else f"the worst case leaves {left:.3f}"
            yield f"{had} at epsilon {floor.epsilon:g}, --fail-under asks for {floor.accuracy:g}"
