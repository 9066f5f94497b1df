"""The momentum iterative method: steps along an average of the gradients so far."""

from dataclasses import dataclass

from ..arrays import Array, namespace
from ..arrays.rows import flat, per_sample
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..problem import Problem
from ..search.stepping import stepped


@attack(
    "mi-fgsm",
    norms=("linf", "l2"),
    reference="Dong et al. 2018, arXiv:1710.06081",
)
@dataclass(frozen=True)
class MIFGSM(Attack):
    """Equal steps along the sum of all gradients, each brought to mean absolute value 1 and the old ones decayed.

    Args:
        steps: Gradient steps.
        decay: What is left of the sum after each step.
    """

    steps: int = 20
    decay: float = 1.0

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps")
        positive(self, "decay")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the last one."""

        return stepped(problem, lambda gradient, memory: self.decay * memory + of_mean_one(gradient), self.steps)


def of_mean_one(gradient: Array) -> Array:
    """The gradient at mean absolute value 1, zero where it is zero."""
    xp = namespace(gradient)
    size = xp.mean(flat(xp.abs(gradient)), axis=1)
    return gradient / per_sample(xp.where(size > 0, size, xp.ones_like(size)), gradient)
