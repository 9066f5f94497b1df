"""DDN: the nearest example in L2, by steps whose direction and norm are decoupled."""

import math
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, namespace
from ..arrays.rows import per_sample
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..distances import Norm
from ..problem import Problem
from ..problem.objective import cross_entropy
from ..search.closest import Closest
from ..search.polish import refined


@attack(
    "ddn",
    norms=("l2",),
    reference="Rony et al. 2019, arXiv:1811.09600",
)
@dataclass(frozen=True)
class DDN(Attack):
    """Follows the gradient on a sphere that shrinks after every adversarial iterate and grows after any other.

    Args:
        steps: Gradient steps.
        gamma: By which share the sphere shrinks and grows.
        start: Radius of the first sphere, in the unit of the input.
        halvings: Halvings of the way to the input at the end.
        polishing: Steps onto the linearised boundary at the end, at most.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 200
    gamma: float = 0.05
    start: float = 1.0
    halvings: int = 5
    polishing: int = 5

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps")
        at_least(self, 0, "halvings", "polishing")
        positive(self, "gamma", "start")

    def search(self, problem: Problem) -> Array:
        """The nearest adversarial iterate of each sample."""
        closest, rows, x = Closest(problem), problem.rows, problem.x
        xp, steepest = namespace(x), problem.distance.steepest
        radius, change = np.full(len(rows), self.start), xp.zeros_like(x)
        for step in range(self.steps):
            ascent = problem.ascend(x + change, rows, cross_entropy)
            closest.offer(x + change, rows, ascent.met)
            rate = 0.01 + 0.99 * (1 + math.cos(math.pi * step / self.steps)) / 2  # the paper's cosine schedule
            change = change + rate * steepest(ascent.gradient)
            if step:
                radius = radius * np.where(ascent.met, 1 - self.gamma, 1 + self.gamma)
            change = per_sample(problem.native(radius), x) * steepest(change)
            change = xp.clip(x + change, *problem.bounds) - x
        return refined(problem, closest, self.halvings, self.polishing)
