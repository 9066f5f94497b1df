"""FGSM behind a random step, which leaves the sharp bend that adversarial training with single steps makes."""

from dataclasses import dataclass

from ..arrays import Array
from ..contract.attack import Attack
from ..contract.options import fraction, positive
from ..contract.registry import attack
from ..problem import Problem
from ..problem.objective import cross_entropy
from ..search.sparse import whole_step
from .least_likely import towards_least_likely


@attack(
    "r-fgsm",
    norms=("linf", "l2"),
    reference="Tramer et al. 2018, arXiv:1705.07204",
)
@dataclass(frozen=True)
class RandomFGSM(Attack):
    """A random step of part of the budget, then one gradient step of the rest.

    Args:
        share: Of the budget, that the random step has.
        least_likely: Whether the gradient step goes to the least likely class instead of away from the label.
    """

    share: float = 0.5
    least_likely: bool = False

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        fraction(self, "share")

    def search(self, problem: Problem) -> Array:
        """The inputs, each two steps away."""
        rows, budget = problem.rows, problem.budget(problem.rows)
        noise = problem.distance.steepest(problem.normal(rows, tuple(problem.x.shape[1:])))
        start = problem.project(problem.x + self.share * budget * noise, rows)
        ascent = problem.ascend(start, rows, towards_least_likely(problem) if self.least_likely else cross_entropy)
        return start + (1.0 - self.share) * budget * problem.distance.steepest(ascent.gradient)


@attack(
    "fast-fgsm",
    norms=("linf", "l2", "l1"),
    reference="Wong, Rice and Kolter 2020, arXiv:2001.03994",
)
@dataclass(frozen=True)
class FastFGSM(Attack):
    """One gradient step, somewhat longer than the budget, from a random point of it, moved back into it.

    Args:
        step_size: Length of the step in budgets.
    """

    step_size: float = 1.25

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        positive(self, "step_size")

    def search(self, problem: Problem) -> Array:
        """The inputs, each a random and a gradient step away."""
        rows = problem.rows
        start = problem.random_start(0, rows)
        ascent = problem.ascend(start, rows, cross_entropy)
        step = self.step_size * whole_step(problem, start, ascent.gradient, rows)
        return problem.project(start + step, rows)
