"""Projected gradient descent: steps along the gradient, each moved back into the budget."""

import math
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Rows, copy
from ..arrays.rows import take
from ..contract.attack import Attack
from ..contract.registry import attack
from ..errors import InvalidInput
from ..problem import Problem
from ..problem.objective import Objective, cross_entropy
from ..search.sparse import steepest_step


@attack(
    "pgd",
    norms=("linf", "l2", "l1"),
    reference="Madry et al. 2018, arXiv:1706.06083",
)
@dataclass(frozen=True)
class PGD(Attack):
    """Steps along the gradient, projected onto the budget; a sample is done as soon as it succeeds.

    Two defaults differ from the paper. Steps shrink evenly from two epsilon to nothing: on convolutional networks for
    digits, plain and adversarially trained, 40 such steps left up to 5 points less accuracy than 40 steps of 2.5 / 40
    epsilon, in both norms and at equal cost, and never more. The first start is the input itself, which left up to 1
    point less than a random one; the other starts are random. `PGD(step_size=2.5 / 40, random_start=True)` is the
    paper's. In L1 a step is shared by the steepest elements that the box lets go on (arXiv:1904.13000).

    Args:
        steps: Gradient steps of each start.
        step_size: Length of every step as a share of epsilon; None lets it shrink as above.
        restarts: Starts tried for a sample, 1 or more; later ones see only what still resists.
        random_start: Whether the first start, too, is drawn from the budget.

    Example:
        >>> PGD(norm="l2", steps=100)(wrap(network), x, y, epsilons=[0.5, 1.0])  # doctest: +SKIP
    """

    steps: int = 40
    step_size: float | None = None
    restarts: int = 1
    random_start: bool = False

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        if self.steps < 1 or self.restarts < 1:
            raise InvalidInput(
                f"PGD expects 1 step and 1 start or more, got steps={self.steps}, restarts={self.restarts}"
            )
        if self.step_size is not None and not (math.isfinite(self.step_size) and self.step_size > 0):
            raise InvalidInput(f"PGD expects a step_size above 0 or None, got {self.step_size}")

    def opening(self) -> Objective | None:
        """The cross-entropy, unless the start is random."""
        return None if self.random_start else cross_entropy

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the last one of its last start."""
        found = copy(problem.x)
        rows = problem.rows
        for restart in range(self.restarts):
            is_random = restart > 0 or self.random_start
            start = problem.random_start(restart, rows) if is_random else problem.x
            rows = self._climb(problem, found, rows, start)
            if not len(rows):
                break
        return found

    def _climb(self, problem: Problem, found: Array, rows: Rows, iterates: Array) -> Rows:
        """The rows that no step made adversarial; writes every row's last iterate into `found`."""
        for step in range(self.steps):
            ascent = problem.ascend(iterates, rows, cross_entropy)
            gradient = ascent.gradient
            if ascent.met.any():
                fallen, going = np.flatnonzero(ascent.met), np.flatnonzero(~ascent.met)
                found[rows[fallen]] = take(iterates, fallen)
                rows, iterates, gradient = rows[going], take(iterates, going), take(gradient, going)
                if not len(rows):
                    return rows
            share = 2.0 * (1.0 - step / self.steps) if self.step_size is None else self.step_size
            ahead = steepest_step(problem, iterates, gradient)
            ahead *= share * problem.budget(rows)  # in place: a new array costs more than the sum that it holds
            ahead += iterates
            iterates = problem.project(ahead, rows)
        found[rows] = iterates
        return rows[~problem.is_adversarial(iterates, rows)] if self.restarts > 1 else rows
