"""What a search without gradients learns from one pass forward, and the gradient that it can guess from many."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, namespace, to_numpy
from ..arrays.rows import per_sample
from ..problem import Problem
from ..problem.criterion import Criterion
from ..problem.objective import lead

#: Makes the direction of the given number, one for each row, shaped as the candidates.
Directions = Callable[[int], Array]
#: `(n,)` values to be raised, of logits `(n, classes)`.
Value = Callable[[Array, Criterion], Array]


def scores(
    problem: Problem, candidates: Array, rows: Rows, value: Value = lead
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The value at one candidate for each of `rows`, and which are adversarial; one query each.

    Returns:
        `(len(rows),)` values, minus infinity where there is none, and `(len(rows),)` bool.
    """
    logits = problem.logits(candidates, rows)
    found = np.asarray(to_numpy(value(logits, problem.criterion(rows))), np.float64)
    return np.where(np.isnan(found), -np.inf, found), problem.judge(logits, rows)


def guessed_gradient(problem: Problem, x: Array, rows: Rows, directions: Directions, pairs: int, reach: float) -> Array:
    """The mean over directions of the objective's central difference times the direction.

    Each pair of points asks for two queries; points are cut by the box.

    Args:
        x: One point for each of `rows`.
        directions: Drawn anew for each pair, with the identity as covariance.
        pairs: How many directions.
        reach: Distance of the two points from `x` along a direction.
    """
    low, high = problem.bounds
    xp = namespace(x)
    total = xp.zeros_like(x)
    for number in range(pairs):
        direction = directions(number)
        ahead, _ = scores(problem, xp.clip(x + reach * direction, low, high), rows)
        behind, _ = scores(problem, xp.clip(x - reach * direction, low, high), rows)
        with np.errstate(invalid="ignore"):
            slope = np.nan_to_num((ahead - behind) / (2 * reach * pairs), nan=0.0, posinf=0.0, neginf=0.0)
        total = total + per_sample(problem.native(slope), x) * direction
    return total
