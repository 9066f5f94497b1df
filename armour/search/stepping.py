"""Equal steps along a direction that may remember the ones before: the loop that iterative sign methods share."""

from collections.abc import Callable

import numpy as np

from ..arrays import Array, Rows, copy, namespace
from ..arrays.rows import take
from ..problem import Problem
from ..problem.objective import Objective, cross_entropy
from .sparse import steepest_step

#: Makes the direction out of the gradient and the last direction, zero at first.
Direction = Callable[[Array, Array], Array]

_REACH = 2.0  # all steps together, in budgets: our choice, enough to cross the budget from side to side


def stepped(
    problem: Problem,
    direction: Direction,
    steps: int,
    objective: Callable[[Rows], Objective] = lambda _: cross_entropy,
) -> Array:
    """The first adversarial iterate of each sample, else the last one.

    Args:
        direction: What each step follows; the step itself has the length that the norm gives it.
        objective: What is climbed, made for the rows at work.
    """
    found, rows = copy(problem.x), problem.rows
    iterates, memory = problem.x, namespace(problem.x).zeros_like(problem.x)
    for _ in range(steps):
        ascent = problem.ascend(iterates, rows, objective(rows))
        memory = direction(ascent.gradient, memory)
        if ascent.met.any():
            fallen = np.flatnonzero(ascent.met)
            found[rows[fallen]] = take(iterates, fallen)
            going = np.flatnonzero(~ascent.met)
            rows, iterates, memory = rows[going], take(iterates, going), take(memory, going)
            if not len(rows):
                return found
        step = problem.budget(rows) * (_REACH / steps)
        iterates = problem.project(iterates + step * steepest_step(problem, iterates, memory), rows)
    found[rows] = iterates
    return found
