"""The fast gradient sign method: one step of the whole budget along the gradient."""

from dataclasses import dataclass

from ..arrays import Array
from ..contract.attack import Attack
from ..contract.registry import attack
from ..problem import Problem
from ..problem.objective import Objective, cross_entropy
from ..search.sparse import whole_step


@attack(
    "fgsm",
    norms=("linf", "l2", "l1"),
    reference="Goodfellow, Shlens and Szegedy 2015, arXiv:1412.6572",
)
@dataclass(frozen=True)
class FGSM(Attack):
    """One step of length epsilon in the direction that raises the loss most; optimal on linear models in Linf.

    In L2 the step follows the gradient itself (the fast gradient method); in L1 the steepest elements go to the edge of
    the box until the budget is spent. It costs one gradient a sample, and overstates robustness wherever the loss is
    not linear: it is a smoke test, not a verdict.

    Example:
        >>> FGSM()(wrap(network), x, y, epsilons=[0.1]).robust_accuracy  # doctest: +SKIP
    """

    def opening(self) -> Objective:
        """The cross-entropy."""
        return cross_entropy

    def search(self, problem: Problem) -> Array:
        """The inputs, each one step away."""
        ascent = problem.ascend(problem.x, problem.rows, cross_entropy)
        return problem.x + whole_step(problem, problem.x, ascent.gradient, problem.rows)
