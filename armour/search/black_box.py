"""Searches without gradients: scores of one query, gradients estimated from many, and starting points."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, image_shape, namespace, per_sample, to_numpy
from ..problem import Problem
from ..problem.criterion import Criterion
from ..problem.objective import lead
from .nearest_examples import Closest

#: Makes the direction of the given number, one for each row, shaped as the candidates.
Directions = Callable[[int], Array]
#: `(n,)` values to be raised, of logits `(n, classes)`.
Value = Callable[[Array, Criterion], Array]


def scores(
    problem: Problem, candidates: Array, rows: Rows, value: Value = lead
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the value at one candidate for each of `rows`, and which are adversarial; one query each.

    Returns:
        `(len(rows),)` values, minus infinity where there is none, and `(len(rows),)` bool.
    """
    logits = problem.logits(candidates, rows)
    return _values(problem, logits, rows, value), problem.judge(logits, rows)


def _values(problem: Problem, logits: Array, rows: Rows, value: Value) -> NDArray[np.float64]:
    found = np.asarray(to_numpy(value(logits, problem.criterion(rows))), np.float64)
    return np.where(np.isnan(found), -np.inf, found)


def guessed_gradient(problem: Problem, x: Array, rows: Rows, directions: Directions, pairs: int, reach: float) -> Array:
    """Estimate the gradient: the mean over directions of the objective's central difference times the direction.

    Each pair of points asks for two queries; points are cut by the box.

    Args:
        x: One point for each of `rows`.
        directions: Drawn for each pair, with the identity as covariance.
        pairs: How many directions.
        reach: Distance of the two points from `x` along a direction.
    """
    low, high = problem.bounds
    xp = namespace(x)
    total = xp.zeros_like(x)
    for number in range(pairs):
        direction = directions(number)
        pair = xp.clip(xp.stack([x + reach * direction, x - reach * direction]), low, high)
        ahead, behind = (_values(problem, logits, rows, lead) for logits in problem.logits_of_many(pair, rows))
        with np.errstate(invalid="ignore"):
            slope = np.nan_to_num((ahead - behind) / (2 * reach * pairs), nan=0.0, posinf=0.0, neginf=0.0)
        total = total + per_sample(problem.native(slope), x) * direction
    return total


_KEY = 900  # separates these draws from those of the searches
#: Blocks of the image that share a value, as shares of its sides: noise of single pixels, patches, one flat colour.
_COARSENESS = (0.0, 0.25, 0.5, 1.0)


def find_starts(problem: Problem, closest: Closest, tries: int) -> Rows:
    """Offer `closest` an adversarial point of the box for each sample that has none yet.

    An input of the data set with the class to be reached comes first: noise alone may well be of one class whatever its
    draw. Then comes noise of pixels, of patches, and of flat colours, between the
    ends of the box and at them.

    Args:
        tries: Draws of noise at most.

    Returns:
        The rows for which there is an adversarial point now.

    Reference:
        Brendel et al. 2018, arXiv:1712.04248, section 3.1; the patches are our choice.
    """
    if not closest.found.all():
        candidates, rows = problem.examples(np.flatnonzero(~closest.found), _KEY)
        if len(rows):
            closest.offer(candidates, rows, problem.is_adversarial(candidates, rows))
    for number in range(tries):
        rows = np.flatnonzero(~closest.found)
        if not len(rows):
            break
        candidates = _noise(problem, rows, number)
        closest.offer(candidates, rows, problem.is_adversarial(candidates, rows))
    return np.flatnonzero(closest.found)


def _noise(problem: Problem, rows: Rows, number: int) -> Array:
    x = problem.x[rows]
    channels, height, width = image_shape(x)
    is_binary, share = number % 2 == 1, _COARSENESS[number // 2 % len(_COARSENESS)]
    tall, wide = (max(1, round(share * side)) for side in (height, width))
    down, across = -(-height // tall), -(-width // wide)
    drawn = problem.uniform(rows, (channels, down, across), _KEY, number)
    values = np.round(drawn) if is_binary else drawn
    filled = np.asarray(np.kron(values, np.ones((1, 1, tall, wide)))[:, :, :height, :width], np.float64)
    low, high = problem.bounds
    return namespace(x).clip(problem.native(low + (high - low) * filled).reshape(x.shape), low, high)
