"""SPSA: differences along random signs, and Adam to follow them."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Rows, copy, namespace
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..problem import Problem
from ..search.scores import guessed_gradient

_BETA1, _BETA2, _TINY = 0.9, 0.999, 1e-8  # Adam's own defaults, which the paper keeps


@attack(
    "spsa",
    norms=("linf",),
    reference="Uesato et al. 2018, arXiv:1802.05666",
    asks="logits",
)
@dataclass(frozen=True)
class SPSA(Attack):
    """Adam on the margin, whose gradient is guessed from simultaneous changes of all elements by random signs.

    Made for models whose gradients lie: no derivative of theirs is looked at. A sample is done as soon as it succeeds.
    A step costs `2 * pairs + 1` queries.

    Args:
        steps: Steps at most.
        pairs: Pairs of queries for one gradient; the paper takes up to 4096.
        reach: Size of the change, as a share of the box.
        learning_rate: Of Adam, as a share of the box.
    """

    steps: int = 100
    pairs: int = 64
    reach: float = 0.01
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "pairs")
        positive(self, "reach", "learning_rate")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the last one."""
        found, rows, iterates = copy(problem.x), problem.rows, problem.x
        xp, width = namespace(iterates), problem.bounds[1] - problem.bounds[0]
        mean = square = xp.zeros_like(iterates)
        for step in range(self.steps):
            gradient = self._gradient(problem, iterates, rows, step, self.reach * width)
            mean = _BETA1 * mean + (1 - _BETA1) * gradient
            square = _BETA2 * square + (1 - _BETA2) * gradient**2
            unbiased, scale = mean / (1 - _BETA1 ** (step + 1)), xp.sqrt(square / (1 - _BETA2 ** (step + 1)))
            ahead = iterates + self.learning_rate * width * unbiased / (scale + _TINY)
            iterates = problem.project(ahead, rows)
            found[rows] = iterates
            going = np.flatnonzero(~problem.is_adversarial(iterates, rows))
            rows, iterates, mean, square = rows[going], iterates[going], mean[going], square[going]
            if not len(rows):
                break
        return found

    def _gradient(self, problem: Problem, iterates: Array, rows: Rows, step: int, reach: float) -> Array:
        shape = tuple(iterates.shape[1:])

        def signs(pair: int) -> Array:
            return problem.native(np.where(problem.uniform(rows, shape, step, pair) < 0.5, -1.0, 1.0))

        return guessed_gradient(problem, iterates, rows, signs, self.pairs, reach)
