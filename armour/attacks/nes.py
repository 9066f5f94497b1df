"""NES: projected gradient descent along a gradient that Gaussian search directions guess."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, copy
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..problem import Problem
from ..search.scores import guessed_gradient


@attack(
    "nes",
    norms=("linf", "l2"),
    reference="Ilyas et al. 2018, arXiv:1804.08598",
    asks="logits",
)
@dataclass(frozen=True)
class NES(Attack):
    """Steps of equal length along the gradient of a Gaussian average of the margin, guessed from pairs of queries.

    A sample is done as soon as it succeeds. A step costs `2 * pairs + 1` queries.

    Args:
        steps: Steps at most.
        pairs: Antithetic pairs of queries for one gradient; the paper's 50 queries are 25 pairs.
        sigma: Deviation of the Gaussian, as a share of the box.
        step_size: Length of a step as a share of epsilon.
    """

    steps: int = 100
    pairs: int = 25
    sigma: float = 0.001
    step_size: float = 0.2

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "pairs")
        positive(self, "sigma", "step_size")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the last one."""
        found, rows, iterates = copy(problem.x), problem.rows, problem.x
        reach = self.sigma * (problem.bounds[1] - problem.bounds[0])
        shape = tuple(problem.x.shape[1:])
        for step in range(self.steps):
            gradient = guessed_gradient(
                problem,
                iterates,
                rows,
                lambda pair, rows=rows, step=step: problem.normal(rows, shape, step, pair),  # type: ignore[misc]
                self.pairs,
                reach,
            )
            ahead = iterates + self.step_size * problem.budget(rows) * problem.distance.steepest(gradient)
            iterates = problem.project(ahead, rows)
            found[rows] = iterates
            going = np.flatnonzero(~problem.is_adversarial(iterates, rows))
            rows, iterates = rows[going], iterates[going]
            if not len(rows):
                break
        return found
