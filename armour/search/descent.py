"""Adam's way down a weighed sum of distance and hinge: what the attacks of Carlini and Wagner share.

Reference:
    Carlini and Wagner 2017, arXiv:1608.04644, section V; Kingma and Ba 2015, arXiv:1412.6980, algorithm 1.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, namespace, to_numpy
from ..arrays.rows import take
from ..problem import Problem
from ..problem.objective import hinge
from .closest import Closest

#: What a change costs, `(n,)`, and the gradient of it, for these samples of the batch.
Cost = Callable[[Array, NDArray[np.int64]], tuple[Array, Array]]

_FIRST, _SECOND = 0.9, 0.999  # Adam's decay rates, as the paper of Adam gives them
_CHECKS = 10  # how often in a descent its progress is judged: the authors' code
_PROGRESS = 0.9999  # and what share of the last value counts as none: the authors' code


def descend(
    problem: Problem,
    closest: Closest,
    start: Array,
    weight: NDArray[np.float64],
    cost: Cost,
    *,
    steps: int,
    step_size: float,
) -> NDArray[np.bool_]:
    """Lowers cost and weighed hinge from `start`; adversarial iterates are offered to `closest`.

    Steps shrink evenly to nothing, and every iterate is moved into the box (the paper's projected descent). A sample
    whose value no longer falls is done.

    Args:
        weight: `(n,)` of the hinge against the cost.
        step_size: Of the first step, as a share of the box.

    Returns:
        `(n,)` bool, True where an iterate was adversarial.
    """
    rows, x, iterates, pull = problem.rows, problem.x, start, problem.native(weight)
    xp, (low, high) = namespace(x), problem.bounds
    first, second = xp.zeros_like(x), xp.zeros_like(x)
    hit, last = np.zeros(len(rows), np.bool_), np.full(len(rows), np.inf)
    for step in range(steps):
        ascent = problem.ascend(iterates, rows, hinge(pull))
        if ascent.met.any():
            closest.offer(iterates, rows, ascent.met)
            hit[rows] |= ascent.met
        price, slope = cost(iterates - x, rows)
        slope = slope - ascent.gradient
        first = _FIRST * first + (1 - _FIRST) * slope
        second = _SECOND * second + (1 - _SECOND) * slope * slope
        rate = step_size * (high - low) * (1 - step / steps) / (1 - _FIRST ** (step + 1))
        spread = xp.sqrt(second) * (1 - _SECOND ** (step + 1)) ** -0.5 + 1e-8
        iterates = xp.clip(iterates - rate * first / spread, low, high)
        if (step + 1) % max(steps // _CHECKS, 1) == 0:
            missing = problem.criterion(rows).lead - ascent.value
            value = np.asarray(to_numpy(price + pull * xp.where(missing > 0, missing, 0.0)), np.float64)
            falls = value < _PROGRESS * last[rows]
            last[rows] = value
            if not falls.all():
                going = np.flatnonzero(falls)
                rows, x, iterates, pull, first, second = (
                    take(values, going) for values in (rows, x, iterates, pull, first, second)
                )
                if not len(rows):
                    break
    return hit
