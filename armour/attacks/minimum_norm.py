"""Nearest examples by steps along the gradient inside a budget that follows the boundary: FMN and DDN."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, cast, from_numpy, namespace, per_sample, to_numpy
from ..contract.attack import Attack, at_least, attack, positive
from ..distances import Norm, distance_named
from ..distances.boundary_steps import dual_length
from ..problem import Problem
from ..problem.objective import cross_entropy, soft_margin
from ..search.nearest_examples import Closest, refine

_LAST_STEP, _LAST_CHANGE = 1e-5, 1e-3  # where step and change of the budget end: the authors' code


@attack(
    "fmn",
    norms=("linf", "l2", "l1", "l0"),
    reference="Pintor et al. 2021, arXiv:2102.12827",
)
@dataclass(frozen=True)
class FMN(Attack):
    """Fast minimum-norm: the budget shrinks after every adversarial iterate and grows after any other.

    Until a sample has fallen once, its budget is the distance at which the linearised boundary stands. Steps have L2
    length `step_size` at first, whatever the norm, and both they and the budget's changes shrink along a cosine.
    Differs from the paper in the direction, which is that of the log-odds instead of the margin, and in that the budget
    grows after every miss: the box can make the linearised boundary seem nearer than it is, and then the paper's stays.

    Args:
        steps: Gradient steps.
        step_size: Length of the first step, in the unit of the input.
        gamma: By which share the budget shrinks and grows at first.
        halvings: Bisection steps towards the input at the end.
        polishing: Steps onto the linearised boundary at the end, at most.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 200
    step_size: float = 1.0
    gamma: float = 0.05
    halvings: int = 5
    polishing: int = 5

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps")
        at_least(self, 0, "halvings", "polishing")
        positive(self, "step_size", "gamma")

    def search(self, problem: Problem) -> Array:
        """Return the nearest adversarial iterate of each sample."""
        closest, rows, x = Closest(problem), problem.rows, problem.x
        budget, change = np.zeros(len(rows)), namespace(x).zeros_like(x)
        uphill = distance_named("l2").steepest
        for step in range(self.steps):
            left = (1 + math.cos(math.pi * step / self.steps)) / 2
            gamma = _LAST_CHANGE + (self.gamma - _LAST_CHANGE) * left
            length = _LAST_STEP + (self.step_size - _LAST_STEP) * left
            ascent = problem.ascend(x + change, rows, soft_margin)
            fallen = closest.found
            closest.offer(x + change, rows, ascent.met)
            if self.norm == "l0":
                budget = _next_counts(budget, ascent.met, closest.distances, gamma)
            else:
                lengths = problem.distance.measure(x, x + change)
                missing = np.abs(np.asarray(to_numpy(ascent.value), np.float64) - problem.criterion(rows).lead)
                slope = np.asarray(to_numpy(dual_length(self.norm, ascent.gradient)), np.float64)
                ahead = lengths + missing / np.maximum(slope, 1e-12)
                outward = np.maximum(budget * (1 + gamma), np.where(fallen, 0.0, ahead))
                budget = np.where(ascent.met, np.minimum(budget * (1 - gamma), closest.distances), outward)
            change = self._project(problem, change + length * uphill(ascent.gradient), budget)
        return refine(problem, closest, self.halvings, self.polishing)

    def _project(self, problem: Problem, change: Array, budget: NDArray[np.float64]) -> Array:
        """Return the change, moved into the budget and the box."""
        x = problem.x
        xp = namespace(x)
        if self.norm == "linf":  # an exact region costs more than the step; the result is clipped exactly later
            limit = cast(per_sample(from_numpy(budget, x), x), x)
            return xp.clip(x + xp.minimum(xp.maximum(change, -limit), limit), *problem.bounds) - x
        return problem.distance.region(x, budget, problem.bounds).project(x + change) - x


def _next_counts(
    budget: NDArray[np.float64], met: NDArray[np.bool_], nearest: NDArray[np.float64], gamma: float
) -> NDArray[np.float64]:
    """Return the next budgets in L0, which change by one element or more."""
    fewer = np.minimum(np.minimum(budget - 1, np.floor(budget * (1 - gamma))), nearest)
    more = np.maximum(budget + 1, np.floor(budget * (1 + gamma)))
    return np.maximum(np.where(met, fewer, more), 0.0)


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
        halvings: Bisection steps towards the input at the end.
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
        """Return the nearest adversarial iterate of each sample."""
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
        return refine(problem, closest, self.halvings, self.polishing)
