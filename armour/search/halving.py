"""The nearest example that a search within budgets can reach: each sample's own budget, halved between two answers."""

from collections.abc import Callable
from typing import Final

import numpy as np

from ..arrays import Array, namespace
from ..problem import Problem
from .closest import Closest

#: Budgets are narrowed to a part in 2**14 of the farthest point of the box: our choice, below a pixel's step.
_HALVINGS: Final = 14
#: Budgets after which a sample that has not fallen is given up, in whatever company: our choice, a 32nd of the box.
_TRIES: Final = 5


def smallest_budgets(search: Callable[[Problem], Array], problem: Problem) -> Array:
    """The nearest adversarial example that `search` finds within any budget that is tried.

    The first budget is the whole box. Where nothing is found, half of it is tried, and so on: few large steps may jump
    over what is near. Where none of the first budgets finds anything, the first candidate is returned.

    Args:
        problem: Its own budgets are not used.
    """
    xp = namespace(problem.x)
    low, high = problem.bounds
    corner = xp.where(problem.x - low > high - problem.x, xp.full_like(problem.x, low), xp.full_like(problem.x, high))
    upper = problem.distance.measure(problem.x, corner)
    lower, budgets = np.zeros(len(upper)), upper.copy()
    closest, first = Closest(problem), None
    for number in range(_HALVINGS + 1):
        within = problem.within(budgets)
        candidates = within.clip(search(within))
        met = problem.is_adversarial(candidates, problem.rows)
        closest.offer(candidates, problem.rows, met & (closest.found | (number <= _TRIES)))
        first = candidates if first is None else first
        if number == _TRIES and not closest.found.any():
            break
        fell = closest.distances <= budgets
        upper = np.where(fell, np.minimum(upper, closest.distances), upper)
        lower = np.where(fell | ~closest.found, lower, budgets)
        budgets = np.where(closest.found, (lower + upper) / 2, budgets / 2)
    found = closest.candidates
    missed = np.flatnonzero(~closest.found)
    if first is not None and len(missed):
        found[missed] = first[missed]
    return found
