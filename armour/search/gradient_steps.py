"""The steps that gradient attacks share: the step of a norm, equal steps in a loop, and likely targets."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, copy, flat, from_numpy, is_class, namespace, take
from ..problem import Problem
from ..problem.objective import Objective, cross_entropy, margin, targeted_logits_ratio

_SHARE = 0.01  # of the elements in a step: the paper's q = 99 %; on images of 8 x 8 that is one pixel; more were weaker


def steepest_step(problem: Problem, iterates: Array, gradient: Array) -> Array:
    """Return the step of length 1 from `iterates` that searches in the problem's norm follow.

    It is the steepest one, but in L1, where one element would be alone, a hundredth of the elements share it.
    """
    if problem.distance.name != "l1":
        return problem.distance.steepest(gradient)
    return shared_step(gradient, iterates, problem.bounds, np.full(len(iterates), _SHARE))


def whole_step(problem: Problem, at: Array, gradient: Array, rows: Rows) -> Array:
    """Return one step of the whole budget of each of `rows` that gains most on a linear model.

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
    """Return the gradient's signs at the steepest elements that the box lets move, together of length 1 in L1.

    Args:
        share: `(n,)` of the elements that take part, from 0 to 1, rounded down; at least one does.
    """
    xp, rows, at = namespace(gradient), flat(gradient), flat(iterates)
    blocked = ((rows > 0) & (at >= bounds[1])) | ((rows < 0) & (at <= bounds[0]))
    slope = xp.where(blocked, xp.zeros_like(rows), rows)
    size = xp.abs(slope)
    width = rows.shape[1]
    rank = np.clip(np.floor(share * width + 1e-9).astype(np.int64), 1, width)  # rounded up, two would never be one
    order = xp.sort(size, axis=1, descending=True)
    least = xp.take_along_axis(order, from_numpy(rank[:, None] - 1, order), axis=1)
    signs = xp.where(size >= least, xp.sign(slope), xp.zeros_like(slope))
    count = xp.sum(xp.abs(signs), axis=1)
    return (signs / xp.where(count > 0, count, xp.ones_like(count))[:, None]).reshape(gradient.shape)


#: Makes the direction out of the gradient and the last direction, zero at first.
Direction = Callable[[Array, Array], Array]

_REACH = 2.0  # all steps together, in budgets: our choice, enough to cross the budget from side to side


def equal_steps(
    problem: Problem,
    direction: Direction,
    steps: int,
    objective: Callable[[Rows], Objective] = lambda _: cross_entropy,
) -> Array:
    """Return the first adversarial iterate of each sample, else the last one.

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


def likeliest_classes(problem: Problem, rows: Rows, count: int) -> list[Array]:
    """Return up to `count` arrays of `(len(rows),)` native classes: the anchor's rivals, the largest logit first.

    When the criterion is targeted there is one array, the targets.
    """
    criterion = problem.criterion(rows)
    if criterion.is_targeted:
        return [criterion.anchor]
    logits = problem.logits(take(problem.x, rows), rows)
    xp = namespace(logits)
    others = xp.where(is_class(logits, criterion.anchor), -xp.inf, logits)
    order = xp.argsort(others, axis=1, descending=True, stable=True)
    return [order[:, rank] for rank in range(min(count, logits.shape[1] - 1))]


def toward_class(problem: Problem, rows: Rows, target: Array) -> Objective:
    """Return the objective that rises as the target overtakes the anchor; the margin if the criterion is targeted."""
    return margin if problem.criterion(rows).is_targeted else targeted_logits_ratio(target)
