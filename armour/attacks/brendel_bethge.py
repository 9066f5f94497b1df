"""Brendel and Bethge's attack: a walk along the decision boundary to where it is nearest to the input."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, namespace
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..distances.hyperplane import dual_length
from ..distances.l2 import euclidean
from ..distances.trust_region import trust_step
from ..problem import Problem
from ..problem.objective import margin
from ..search.closest import Closest
from ..search.polish import refined
from .fmn import FMN

_BEYOND = 1e-2  # of the radius, by which a step aims beyond the boundary: our choice, so that most are adversarial
_LAST = 1e-3  # of the first radius, the last: our choice


@attack(
    "brendel-bethge",
    norms=("linf", "l2"),
    reference="Brendel et al. 2019, arXiv:1907.01003",
)
@dataclass(frozen=True)
class BrendelBethge(Attack):
    """Steps along the linearised boundary, each the one that comes nearest to the input inside a small sphere.

    Differs from the paper in the start: where the paper begins at an adversarial input from elsewhere and follows the
    boundary for long, this one begins where a few steps of FMN end, so that a twentieth of the steps do; inputs for
    which FMN finds nothing begin at another input of the data set. The spheres shrink with every step.

    Args:
        steps: Gradient steps along the boundary.
        radius: Of the first sphere, as a share of the distance.
        warm_up: Steps of FMN before.
        halvings: Halvings of the way to the input, before and at the end.
        polishing: Steps onto the linearised boundary at the end, at most.
    """

    finds_minimum = True

    steps: int = 50
    radius: float = 0.5
    warm_up: int = 30
    halvings: int = 5
    polishing: int = 5

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "warm_up")
        at_least(self, 0, "halvings", "polishing")
        positive(self, "radius")

    def search(self, problem: Problem) -> Array:
        """The nearest adversarial point met."""
        closest = Closest(problem)
        begun = FMN(norm=self.norm, steps=self.warm_up, halvings=0, polishing=0).search(problem)
        closest.offer(begun, problem.rows, problem.is_adversarial(begun, problem.rows))
        missed = np.flatnonzero(~closest.found)
        if len(missed):
            others, has_one = problem.examples(missed)
            closest.offer(others, has_one, problem.is_adversarial(others, has_one))
        closest.tighten(self.halvings)
        self._walk(problem, closest)
        return refined(problem, closest, self.halvings, self.polishing)

    def _walk(self, problem: Problem, closest: Closest) -> None:
        rows = np.flatnonzero(closest.found)
        if not len(rows):
            return
        x, at = problem.x[rows], closest.candidates[rows]
        xp = namespace(x)
        for step in range(self.steps):
            ascent = problem.ascend(at, rows, margin)
            closest.offer(at, rows, ascent.met)
            radius = self.radius * _LAST ** (step / self.steps) * euclidean(at - x)
            gap = problem.criterion(rows).lead - ascent.value
            gap = gap + _BEYOND * radius * dual_length("l2", ascent.gradient)
            change = trust_step(self.norm, x, at, ascent.gradient, gap, radius, problem.bounds)
            at = xp.clip(at + change, *problem.bounds)
