"""DeepFool: steps to the nearest linearised boundary until one is crossed."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Rows, cast, copy, namespace
from ..arrays.rows import is_class, per_sample, take
from ..contract.attack import Attack
from ..contract.options import at_least, positive
from ..contract.registry import attack
from ..distances.hyperplane import dual_length, step_to_hyperplane
from ..problem import Problem
from ..search.closest import Closest
from ..search.rivals import rivals


@attack(
    "deepfool",
    norms=("linf", "l2"),
    reference="Moosavi-Dezfooli, Fawzi and Frossard 2016, arXiv:1511.04599",
)
@dataclass(frozen=True)
class DeepFool(Attack):
    """Steps onto the nearest of the boundaries to the likeliest classes, taken as planes, until one is crossed.

    Differs from the paper in two places. Each step is the shortest inside the box, where the paper's clips afterwards:
    on inputs that touch the box that can undo the step for ever. The overshoot grows with every step that crosses
    nothing, and halvings of the way back then take what was too much. It finds near examples, not the nearest.

    Args:
        steps: Gradient steps at most.
        classes: How many boundaries are looked at, those of the largest logits.
        overshoot: By which share a step goes beyond the plane.
        halvings: Halvings of the way to the input at the end.
    """

    finds_minimum = True

    steps: int = 50
    classes: int = 10
    overshoot: float = 0.02
    halvings: int = 12

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "classes")
        at_least(self, 0, "halvings")
        positive(self, "overshoot")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, drawn back to the boundary; else the last iterate."""
        closest, last = Closest(problem), copy(problem.x)
        classes = rivals(problem, problem.rows, self.classes)
        rows, iterates = problem.rows, problem.x
        for step in range(self.steps):
            change = self._step(problem, iterates, rows, [one[rows] for one in classes])
            reach = 1.0 + self.overshoot * (1 + step)
            iterates = namespace(iterates).clip(iterates + reach * change, *problem.bounds)
            last[rows] = iterates
            met = problem.is_adversarial(iterates, rows)
            closest.offer(iterates, rows, met)
            if met.any():
                going = np.flatnonzero(~met)
                rows, iterates = rows[going], take(iterates, going)
            if not len(rows):
                break
        found = closest.tighten(self.halvings)
        missed = np.flatnonzero(~closest.found)
        found[missed] = last[missed]
        return found

    def _step(self, problem: Problem, iterates: Array, rows: Rows, classes: list[Array]) -> Array:
        """The shortest step onto the nearest plane."""
        criterion = problem.criterion(rows)
        xp = namespace(iterates)

        def directions(logits: Array) -> list[Array]:
            if criterion.is_targeted:  # one plane: between the target and the largest other class
                others = xp.where(is_class(logits, criterion.anchor), -xp.inf, logits)
                goals, own = [criterion.anchor], xp.argmax(others, axis=1)
            else:
                goals, own = classes, criterion.anchor
            return [_one(logits, goal) - _one(logits, own) for goal in goals]

        logits, slopes = problem.slopes(iterates, rows, directions)
        gaps = [criterion.lead - xp.sum(direction * logits, axis=1) for direction in directions(logits)]
        nearest, gap, slope = None, gaps[0], slopes[0]
        for other_gap, other in zip(gaps, slopes, strict=True):
            length = dual_length(self.norm, other)
            far = xp.abs(other_gap) / xp.where(length > 0, length, 1e-12)
            if nearest is None:
                nearest = far
                continue
            nearer = far < nearest
            nearest, gap = xp.where(nearer, far, nearest), xp.where(nearer, other_gap, gap)
            slope = xp.where(per_sample(nearer, other), other, slope)
        return step_to_hyperplane(self.norm, iterates, slope, gap, problem.bounds)


def _one(logits: Array, classes: Array) -> Array:
    return cast(is_class(logits, classes), logits)
