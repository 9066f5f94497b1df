"""Boundary: a random walk along the decision boundary, ever nearer to the input; it asks for decisions alone."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Rows, namespace
from ..arrays.rows import flat, per_sample
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..distances import Norm
from ..distances.l2 import euclidean
from ..problem import Problem
from ..search.closest import Closest
from ..search.starts import find_starts

_CHECK = 5  # steps between two looks at the sideways step alone: our choice
_GROWTH = 1.3  # of a step's length after a success: our choice


@attack(
    "boundary",
    norms=("l2",),
    reference="Brendel et al. 2018, arXiv:1712.04248",
    asks="decisions",
)
@dataclass(frozen=True)
class Boundary(Attack):
    """Steps at random along the sphere around the input, then a little towards it; adversarial points are kept.

    The sideways step grows and shrinks so that half of the points beside are adversarial, the step towards the input so
    that a quarter of the candidates are, as in the paper; both are adapted after every try.

    Args:
        steps: Candidates of each sample.
        sideways: Length of the first sideways steps, as a share of the distance.
        towards: Length of the first steps towards the input, as a share of the distance.
        tries: Draws of noise for a point to start from, where no other input of the data set is one.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 5000
    sideways: float = 0.1
    towards: float = 0.1
    tries: int = 50

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "tries")
        positive(self, "sideways", "towards")

    def search(self, problem: Problem) -> Array:
        """The nearest adversarial point of each walk; the input where no start was found."""
        closest = Closest(problem)
        rows = find_starts(problem, closest, self.tries)
        closest.tighten(10)
        sideways, towards = np.full(len(rows), self.sideways), np.full(len(rows), self.towards)
        for step in range(self.steps if len(rows) else 0):
            beside = self._beside(problem, closest, rows, sideways, step)
            if step % _CHECK == 0:
                met = problem.is_adversarial(beside, rows)
                sideways = np.clip(np.where(met, sideways * _GROWTH, sideways / _GROWTH), 1e-8, 1.0)
            x = problem.x[rows]
            candidates = x + per_sample(problem.native(1.0 - towards), x) * (beside - x)
            met = problem.is_adversarial(candidates, rows)
            closest.offer(candidates, rows, met)
            towards = np.clip(np.where(met, towards * _GROWTH, towards / _GROWTH ** (1 / 3)), 1e-8, 0.5)
        return closest.candidates

    def _beside(self, problem: Problem, closest: Closest, rows: Rows, sideways: np.ndarray, step: int) -> Array:
        """A point as far from the input as the nearest one known, at random beside it, inside the box."""
        x, here = problem.x[rows], closest.candidates[rows]
        xp, way = namespace(x), here - x
        length = per_sample(euclidean(way), x)
        unit = way / xp.where(length > 0, length, xp.ones_like(length))
        noise = problem.normal(rows, tuple(x.shape[1:]), step)
        along = per_sample(xp.sum(flat(noise * unit), axis=1), x)
        noise = problem.distance.steepest(noise - along * unit)
        moved = way + per_sample(problem.native(sideways), x) * length * noise
        return xp.clip(x + length * problem.distance.steepest(moved), *problem.bounds)
