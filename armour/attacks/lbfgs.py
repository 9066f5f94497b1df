"""The first attack on neural networks: a quasi-Newton search in the box, sample by sample."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..arrays import Array, Rows, to_numpy
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..distances import Norm
from ..problem import Problem
from ..problem.objective import cross_entropy
from ..search.closest import Closest
from ..search.polish import refined
from ..search.weighing import Weighing


@attack(
    "l-bfgs",
    norms=("l2",),
    reference="Szegedy et al. 2014, arXiv:1312.6199",
)
@dataclass(frozen=True)
class LBFGS(Attack):
    """SciPy's L-BFGS-B on the squared distance plus a constant times the loss; searches of the constant.

    The loss is the cross-entropy of "any other class than the label", or of the target. Samples are searched for one
    after the other, which is slow: it is here to compare with, and `cw` and `fmn` find nearer examples sooner.

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
            met = np.zeros(len(problem.rows), np.bool_)
            for row in problem.rows:
                met[row] = self._descend(problem, closest, problem.rows[row : row + 1], weighing.weights[row])
            weighing.narrow(met)
        return refined(problem, closest, self.halvings, self.polishing)

    def _descend(self, problem: Problem, closest: Closest, row: Rows, weight: float) -> bool:
        """Whether one of the points that L-BFGS asks about is adversarial."""
        x = np.asarray(to_numpy(problem.x[row]), np.float64)
        hits = []

        def value(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            candidate = _native(problem, point, x.shape)
            ascent = problem.ascend(candidate, row, cross_entropy)
            closest.offer(candidate, row, ascent.met)
            hits.append(bool(ascent.met[0]))
            odds = float(ascent.value[0])  # of all other classes; softplus(-odds) is the cross-entropy of leaving
            change = point - x.reshape(-1)
            slope = np.asarray(to_numpy(ascent.gradient), np.float64).reshape(-1)
            loss, share = np.logaddexp(0.0, -odds), np.exp(-np.logaddexp(0.0, odds))
            return float(change @ change + weight * loss), 2.0 * change - weight * share * slope

        box = [problem.bounds] * x.size
        minimize(value, x.reshape(-1), jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": self.steps})
        return any(hits)


def _native(problem: Problem, point: NDArray[np.float64], shape: tuple[int, ...]) -> Array:
    """The point as a batch of one in the dtype of the inputs, inside the box after rounding, too."""
    return problem.native(np.clip(point, *problem.bounds).reshape(shape))
