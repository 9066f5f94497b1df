"""The fast gradient sign method: one step of the whole budget along the gradient."""

from dataclasses import dataclass

from ..arrays import Array
from ..attack import Attack
from ..objective import cross_entropy
from ..problem import Problem
from ..registry import attack


@attack(
    "fgsm",
    norms=("linf", "l2", "l1"),
    reference="Goodfellow, Shlens and Szegedy 2015, arXiv:1412.6572",
)
@dataclass(frozen=True)
class FGSM(Attack):
    """One step of length epsilon in the direction that raises the loss most; optimal on linear models in Linf.

    In L2 the step follows the gradient itself (the fast gradient method). It costs one gradient a sample, and
    overstates robustness wherever the loss is not linear: it is a smoke test, not a verdict.

    Example:
        >>> FGSM()(wrap(network), x, y, epsilons=[0.1]).robust_accuracy  # doctest: +SKIP
    """

    def search(self, problem: Problem) -> Array:
        """The inputs, each one step away."""
        ascent = problem.ascend(problem.x, problem.rows, cross_entropy)
        return problem.x + problem.budget(problem.rows) * problem.distance.steepest(ascent.gradient)
