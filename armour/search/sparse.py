"""Steps in L1 that several elements share: the steepest element alone climbs too slowly, or meets the box.

Reference:
    Tramer and Boneh 2019, arXiv:1904.13000, section 2 (SLIDE).
"""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, from_numpy, namespace
from ..arrays.rows import flat
from ..problem import Problem

_SHARE = 0.01  # of the elements in a step: the paper's q = 99 %; on pictures of 8 x 8, one pixel, more were weaker


def steepest_step(problem: Problem, iterates: Array, gradient: Array) -> Array:
    """The step of length 1 from `iterates` that searches in the problem's norm follow.

    It is the steepest one, but in L1, where one element would be alone, a hundredth of the elements share it.
    """
    if problem.distance.name != "l1":
        return problem.distance.steepest(gradient)
    return shared_step(gradient, iterates, problem.bounds, np.full(len(iterates), _SHARE))


def whole_step(problem: Problem, at: Array, gradient: Array, rows: Rows) -> Array:
    """The one step of the whole budget of each of `rows` that a linear model gains most by.

    In L1 the steepest elements go to the edge of the box, one after the other, until the budget is spent; one element
    alone would leave most of it.
    """
    if problem.distance.name != "l1":
        return problem.budget(rows) * problem.distance.steepest(gradient)
    xp, slope, start = namespace(at), flat(gradient), flat(at)
    low, high = problem.bounds
    room = xp.where(slope > 0, high - start, xp.where(slope < 0, start - low, xp.zeros_like(start)))
    order = xp.argsort(xp.abs(slope), axis=1, descending=True, stable=True)
    sorted_room = xp.take_along_axis(room, order, axis=1)
    left = flat(problem.budget(rows)) - (xp.cumulative_sum(sorted_room, axis=1) - sorted_room)
    used = xp.minimum(xp.clip(left, 0.0, None), sorted_room)
    size = xp.take_along_axis(used, xp.argsort(order, axis=1, stable=True), axis=1)
    return (xp.sign(slope) * size).reshape(at.shape)


def shared_step(gradient: Array, iterates: Array, bounds: tuple[float, float], share: NDArray[np.float64]) -> Array:
    """Signs of the gradient at the steepest elements that the box lets go on, all together of length 1 in L1.

    Args:
        share: `(n,)` of the elements that take part, from 0 to 1, rounded down; at least one does.
    """
    xp, rows, at = namespace(gradient), flat(gradient), flat(iterates)
    blocked = ((rows > 0) & (at >= bounds[1])) | ((rows < 0) & (at <= bounds[0]))
    slope = xp.where(blocked, xp.zeros_like(rows), rows)
    size = xp.abs(slope)
    width = rows.shape[1]
    place = np.clip(np.floor(share * width + 1e-9).astype(np.int64), 1, width)  # rounded up, two would never be one
    order = xp.sort(size, axis=1, descending=True)
    least = xp.take_along_axis(order, from_numpy(place[:, None] - 1, order), axis=1)
    signs = xp.where(size >= least, xp.sign(slope), xp.zeros_like(slope))
    count = xp.sum(xp.abs(signs), axis=1)
    return (signs / xp.where(count > 0, count, xp.ones_like(count))[:, None]).reshape(gradient.shape)
