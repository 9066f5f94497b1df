"""The basic iterative method: fast gradient signs in small steps."""

from dataclasses import dataclass

from ..arrays import Array
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..problem import Problem
from ..search.stepping import stepped


@attack(
    "bim",
    norms=("linf", "l2", "l1"),
    reference="Kurakin, Goodfellow and Bengio 2017, arXiv:1607.02533",
)
@dataclass(frozen=True)
class BIM(Attack):
    """Equal steps from the input itself, each moved back into the budget; together they are as long as two budgets.

    Args:
        steps: Gradient steps.
    """

    steps: int = 20

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the last one."""
        return stepped(problem, lambda gradient, _: gradient, self.steps)
