"""FAB-T: the nearest example, by projections onto the linearised boundary to one class after another."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, as_float64, cast, concatenate, from_numpy, namespace
from ..arrays.rows import flat, is_class, per_sample
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..distances.hyperplane import step_to_hyperplane
from ..problem import Problem
from ..problem.objective import margin
from ..search.closest import Closest
from ..search.rivals import rivals

_OVERSHOOT = 1.05  # the paper's eta
_BACKWARD = 0.9  # the paper's beta
_LARGEST_BIAS = 0.1  # the paper's alpha_max


@attack(
    "fab-t",
    norms=("linf", "l2", "l1"),
    reference="Croce and Hein 2020, arXiv:1907.02044",
)
@dataclass(frozen=True)
class FABT(Attack):
    """Fast adaptive boundary: steps to the boundary of a target class that stay near the input, and back again.

    Finds the nearest examples, whatever the budget. Every step projects both the iterate and the input onto the
    linearised boundary, inside the box, and goes to a mean of the two.

    Args:
        steps: Steps of each start and target.
        restarts: Starts for each target; the first is the input itself, the others are random and near.
        classes: How many targets are tried, the likeliest first.
        halvings: Halvings of the way to the input at the end; the paper has 3, which leaves half a percent.
    """

    finds_minimum = True

    steps: int = 100
    restarts: int = 1
    classes: int = 9
    halvings: int = 10

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts", "classes")
        at_least(self, 0, "halvings")

    def search(self, problem: Problem) -> Array:
        """The nearest adversarial example met."""
        closest = Closest(problem)
        for number, target in enumerate(rivals(problem, problem.rows, self.classes)):
            for restart in range(self.restarts):
                start = problem.x if restart == 0 else self._near(problem, closest, number * self.restarts + restart)
                self._walk(problem, closest, start, target)
        return closest.tighten(self.halvings)

    def _near(self, problem: Problem, closest: Closest, restart: int) -> Array:
        """Random points within half the nearest distance so far, or a tenth of the box where none is known."""
        low, high = problem.bounds
        reach = np.where(closest.found, closest.distances / 2, 0.1 * (high - low))
        return problem.within(reach).random_start(restart, problem.rows)

    def _walk(self, problem: Problem, closest: Closest, start: Array, target: Array) -> None:
        rows, x, iterates = problem.rows, problem.x, start
        for _ in range(self.steps):
            value, slope = _lead(problem, iterates, rows, target)
            gap = problem.criterion(rows).lead - value
            shift = namespace(x).sum(flat(as_float64(slope) * as_float64(iterates - x)), axis=1)
            starts, gaps = concatenate([iterates, x]), concatenate([gap, gap + cast(shift, gap)])
            both = step_to_hyperplane(self.norm, starts, concatenate([slope, slope]), gaps, problem.bounds)
            from_here, from_start = both[: len(x)], both[len(x) :]
            lengths = _length(problem, both)
            here, there = lengths[: len(x)], lengths[len(x) :]
            bias = per_sample(problem.native(np.minimum(here / np.maximum(here + there, 1e-12), _LARGEST_BIAS)), x)
            ahead = (1 - bias) * (iterates + _OVERSHOOT * from_here) + bias * (x + _OVERSHOOT * from_start)
            iterates = namespace(x).clip(ahead, *problem.bounds)
            met = problem.is_adversarial(iterates, rows)
            closest.offer(iterates, rows, met)
            back = per_sample(from_numpy(met, x), x)
            iterates = namespace(x).where(back, x + _BACKWARD * (iterates - x), iterates)


def _lead(problem: Problem, candidates: Array, rows: Rows, target: Array) -> tuple[Array, Array]:
    """By how much the target leads the class that is left, `(n,)`, and the gradient of it."""
    criterion = problem.criterion(rows)

    def directions(logits: Array) -> list[Array]:
        if criterion.is_targeted:
            return [margin(logits, criterion)[1]]
        own = is_class(logits, criterion.anchor)
        return [cast(is_class(logits, target), logits) - cast(own, logits)]

    logits, (slope,) = problem.slopes(candidates, rows, directions)
    (direction,) = directions(logits)
    return namespace(logits).sum(direction * logits, axis=1), slope


def _length(problem: Problem, step: Array) -> NDArray[np.float64]:
    return problem.distance.measure(namespace(step).zeros_like(step), step)
