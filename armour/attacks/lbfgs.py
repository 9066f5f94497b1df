"""The first attack on neural networks: a quasi-Newton search in the box."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, namespace
from ..arrays.rows import flat, per_sample, take
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..distances import Norm
from ..problem import Problem
from ..problem.objective import cross_entropy
from ..search.closest import Closest
from ..search.polish import refined
from ..search.quasi_newton import minimize
from ..search.weighing import Weighing


@attack(
    "l-bfgs",
    norms=("l2",),
    reference="Szegedy et al. 2014, arXiv:1312.6199",
)
@dataclass(frozen=True)
class LBFGS(Attack):
    """L-BFGS in the box on the squared distance plus a constant times the loss; searches of the constant.

    The loss is the cross-entropy of "any other class than the label", or of the target.

    Args:
        steps: Iterations of each search.
        searches: Constants tried for each sample.
        halvings: Halvings of the way to the input at the end.
        polishing: Steps onto the linearised boundary at the end, at most.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 30
    searches: int = 6
    halvings: int = 10
    polishing: int = 5

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "searches")
        at_least(self, 0, "halvings", "polishing")

    def search(self, problem: Problem) -> Array:
        """The nearest adversarial point at which the model was asked."""
        closest, weighing = Closest(problem), Weighing(problem)
        for _ in range(self.searches):
            weighing.narrow(self._descend(problem, closest, weighing.weights))
        return refined(problem, closest, self.halvings, self.polishing)

    def _descend(self, problem: Problem, closest: Closest, weight: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether one of the points that L-BFGS asks about is adversarial."""
        hit, pull, xp = np.zeros(len(problem.rows), np.bool_), problem.native(weight), namespace(problem.x)

        def value(candidates: Array, rows: Rows) -> tuple[Array, Array]:
            ascent = problem.ascend(candidates, rows, cross_entropy)
            closest.offer(candidates, rows, ascent.met)
            hit[rows] |= ascent.met
            change, weights = candidates - take(problem.x, rows), take(pull, rows)
            odds = ascent.value  # of all other classes; softplus(-odds) is the cross-entropy of leaving
            loss, share = xp.logaddexp(xp.zeros_like(odds), -odds), 1.0 / (1.0 + xp.exp(odds))
            slope = 2.0 * change - per_sample(weights * share, change) * ascent.gradient
            return xp.sum(flat(change) ** 2, axis=1) + weights * loss, slope

        minimize(value, problem.x, problem.rows, problem.bounds, self.steps)
        return hit
