"""Carlini and Wagner's attacks: a distance and a hinge on the logits, weighed by a searched constant."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, from_numpy, namespace, to_numpy
from ..arrays.rows import flat, per_sample
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..distances import Norm
from ..distances.hyperplane import dual_length
from ..problem import Problem
from ..problem.objective import margin
from ..search.closest import Closest
from ..search.descent import Cost, descend
from ..search.polish import refined
from ..search.weighing import Weighing


@attack(
    "cw",
    norms=("l2", "linf"),
    reference="Carlini and Wagner 2017, arXiv:1608.04644",
)
@dataclass(frozen=True)
class CarliniWagner(Attack):
    """Adam on the squared distance plus a constant times a hinge on the logits; searches of the constant, and a polish.

    In Linf the cost is what the changes of all elements have beyond a limit, which shrinks below each example found;
    where none is found the constant grows instead.

    Differs from the authors' code, which ends a third farther away after the same steps: the box is kept by projection,
    as pixels at its edge hardly move under a change of variables; steps shrink evenly; the first constant is that of
    the linearised model; the hinge pulls towards all other classes, softly.

    Args:
        steps: Gradient steps of each search at most; a sample that no longer gains is done.
        searches: Constants tried for each sample.
        step_size: Of the first step of each search, as a share of the box.
        halvings: Halvings of the way to the input at the end.
        polishing: Steps onto the linearised boundary at the end, at most.
    """

    finds_minimum = True

    norm: Norm = "l2"
    steps: int = 200
    searches: int = 9
    step_size: float = 0.03
    halvings: int = 5
    polishing: int = 5

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "searches")
        at_least(self, 0, "halvings", "polishing")
        positive(self, "step_size")

    def search(self, problem: Problem) -> Array:
        """The nearest adversarial iterate of each sample."""
        closest = Closest(problem)
        if self.norm == "l2":
            self._weighed(problem, closest)
        else:
            self._limited(problem, closest)
        return refined(problem, closest, self.halvings, self.polishing)

    def _weighed(self, problem: Problem, closest: Closest) -> None:
        weighing = Weighing(problem)
        for _ in range(self.searches):
            met = descend(
                problem, closest, problem.x, weighing.weights, _squared, steps=self.steps, step_size=self.step_size
            )
            weighing.narrow(met)

    def _limited(self, problem: Problem, closest: Closest) -> None:
        """The paper's section VI-C, from the limit at which the linearised model falls."""
        ascent = problem.ascend(problem.x, problem.rows, margin)
        steep = np.maximum(np.asarray(to_numpy(dual_length("linf", ascent.gradient)), np.float64), 1e-12)
        gap = problem.criterion(problem.rows).lead - np.asarray(to_numpy(ascent.value), np.float64)
        limit, weight = _SHRINK * gap / steep, flat(problem.x).shape[1] / steep
        for _ in range(self.searches):
            start = namespace(problem.x).where(
                per_sample(from_numpy(closest.found, problem.x), problem.x), closest.candidates, problem.x
            )
            cost = _beyond(problem, limit)
            met = descend(problem, closest, start, weight, cost, steps=self.steps, step_size=self.step_size)
            limit = np.where(met, np.minimum(limit, _SHRINK * closest.distances), limit * _GROW)
            weight = np.where(met, weight, weight * 2)


_SHRINK = 0.9  # of the distance reached, the next limit: the paper's
_GROW = 1.1  # of the limit, where nothing is found: our choice, as it does not start at the whole box


def _beyond(problem: Problem, limit: NDArray[np.float64]) -> Cost:
    """What changes have beyond each sample's limit, summed over elements."""
    limits = problem.native(limit)

    def cost(change: Array, rows: Rows) -> tuple[Array, Array]:
        xp = namespace(change)
        over = xp.abs(change) - per_sample(limits[rows], change)
        slope = xp.where(over > 0, xp.sign(change), xp.zeros_like(change))
        return xp.sum(flat(xp.clip(over, 0.0, None)), axis=1), slope

    return cost


def _squared(change: Array, _: Rows) -> tuple[Array, Array]:
    return namespace(change).sum(flat(change) ** 2, axis=1), 2.0 * change
