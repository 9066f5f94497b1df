"""Projected gradient descent, with fixed steps (PGD) or with steps that adapt by themselves (Auto-PGD)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..array_api import Array, Rows, copy, take
from ..contract.attack import Attack, at_least, attack
from ..errors import InvalidInput
from ..problem import Problem
from ..problem.objective import Objective, cross_entropy, logits_ratio, sharpened_cross_entropy
from ..search.auto_pgd import climb, climb_sparsely
from ..search.gradient_steps import likeliest_classes, steepest_step, toward_class


@attack(
    "pgd",
    norms=("linf", "l2", "l1"),
    reference="Madry et al. 2018, arXiv:1706.06083",
)
@dataclass(frozen=True)
class PGD(Attack):
    """Steps along the gradient, projected onto the budget; a sample is done as soon as it succeeds.

    Three defaults differ from the paper. Steps shrink evenly from two epsilon to 0: on convolutional networks for
    digits, plain and adversarially trained, 40 such steps left up to 5 points less accuracy than 40 steps of 2.5 / 40
    epsilon, in both norms and at equal cost, and never more. The first start is the input itself, which left up to 1
    point less than a random one; the other starts are random. Where logits are small, the cross-entropy is that of
    larger ones. `PGD(step_size=2.5 / 40, random_start=True, sharpened=False)` is the paper's. In L1 a step is shared by
    the steepest elements that the box lets move (arXiv:1904.13000).

    Args:
        steps: Gradient steps of each start.
        step_size: Length of every step as a share of epsilon; None lets it shrink as above.
        restarts: Starts tried for a sample, 1 or more; later ones run only on samples that still resist.
        random_start: Whether the first start, too, is drawn from the budget.
        sharpened: Whether small logits are multiplied up, so that a model's scale does not hide its nearest class.

    Example:
        >>> PGD(norm="l2", steps=100)(wrap(network), x, y, epsilons=[0.5, 1.0])  # doctest: +SKIP
    """

    steps: int = 40
    step_size: float | None = None
    restarts: int = 1
    random_start: bool = False
    sharpened: bool = True

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        if self.steps < 1 or self.restarts < 1:
            raise InvalidInput(
                f"PGD expects 1 step and 1 start or more, got steps={self.steps}, restarts={self.restarts}"
            )
        if self.step_size is not None and not (math.isfinite(self.step_size) and self.step_size > 0):
            raise InvalidInput(f"PGD expects a step_size above 0 or None, got {self.step_size}")

    def initial_objective(self) -> Objective | None:
        """Return the cross-entropy, unless the start is random."""
        return None if self.random_start else self._objective

    @property
    def _objective(self) -> Objective:
        return sharpened_cross_entropy if self.sharpened else cross_entropy

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the last one of its last start."""
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
        """Return the rows that no step made adversarial; write every row's last iterate into `found`."""
        for step in range(self.steps):
            ascent = problem.ascend(iterates, rows, self._objective)
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


_PAPER: Final = "Croce and Hein 2020, arXiv:2003.01690; in L1 Croce and Hein 2021, arXiv:2103.01208"


@attack("apgd-ce", norms=("linf", "l2", "l1"), reference=_PAPER)
@dataclass(frozen=True)
class APGDCE(Attack):
    """Auto-PGD on the cross-entropy: momentum, and steps that halve when the loss stops rising.

    Args:
        steps: Gradient steps of each start.
        restarts: Random starts; later ones run only on samples that still resist.
    """

    steps: int = 100
    restarts: int = 1

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the one of the highest loss."""
        return _climb_all(problem, [lambda _: cross_entropy], self.steps, self.restarts)


@attack("apgd-dlr", norms=("linf", "l2", "l1"), reference=_PAPER)
@dataclass(frozen=True)
class APGDDLR(Attack):
    """Auto-PGD on the difference of logits ratio, which is invariant to scale and shift of the logits.

    Args:
        steps: Gradient steps of each start.
        restarts: Random starts; later ones run only on samples that still resist.
    """

    steps: int = 100
    restarts: int = 1

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the one of the highest ratio."""
        return _climb_all(problem, [lambda _: logits_ratio], self.steps, self.restarts)


@attack("apgd-t", norms=("linf", "l2", "l1"), reference=_PAPER)
@dataclass(frozen=True)
class APGDT(Attack):
    """Auto-PGD towards the likeliest other classes, one after the other, on the targeted logits ratio.

    Args:
        steps: Gradient steps of each start and target.
        restarts: Random starts for each target.
        classes: How many targets are tried.
    """

    steps: int = 100
    restarts: int = 1
    classes: int = 9

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts", "classes")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the best of the last target."""

        def toward(target: Array) -> Callable[[Rows], Objective]:
            return lambda rows: toward_class(problem, rows, target[rows])

        objectives = [toward(target) for target in likeliest_classes(problem, problem.rows, self.classes)]
        return _climb_all(problem, objectives, self.steps, self.restarts)


def _climb_all(problem: Problem, objectives: Sequence[Callable[[Rows], Objective]], steps: int, restarts: int) -> Array:
    """Climb once for each objective and start, on the samples that still resist."""
    found, rows = copy(problem.x), problem.rows
    upward = climb_sparsely if problem.distance.name == "l1" else climb
    for number, objective in enumerate(objectives):
        for restart in range(restarts):
            if not len(rows):
                return found
            starts = problem.random_start(number * restarts + restart, rows)
            rows = upward(problem, found, rows, starts, objective, steps)
    return found
