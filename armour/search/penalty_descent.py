"""Descents on a weighted sum of distance and loss, by Adam or L-BFGS, and the search for the weight."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, flat, namespace, per_sample, take, to_numpy
from ..problem import Problem
from ..problem.objective import hinge, margin
from ..problem.search_problem import SampleStates
from .nearest_examples import Closest

_SMALLEST, _LARGEST = 1e-12, 1e12  # beyond, float32 would lose one side of the sum
_WIDEN = 3.0  # by which an open side of the bracket is widened: our choice, as the first guess is rarely far off


class WeightSearch:
    """The smallest weight of each sample under which a descent still finds an adversarial example.

    The paper starts all samples at one constant and needs many rounds to come near. Here the first guess is the one
    that is right for a linear model in L2: there the minimum of `|d|^2 + c (gap - g d)` reaches the boundary when
    `c = 2 gap / |g|^2`, with the gap between the logits and its gradient `g` at the input.

    Args:
        toll: What every element costs in proportion to its change, which the pull of the steepest has to exceed first.

    Reference:
        Carlini and Wagner 2017, arXiv:1608.04644, section VI-A; the first guess is our choice.
    """

    def __init__(self, problem: Problem, toll: float = 0.0) -> None:
        ascent = problem.ascend(problem.x, problem.rows, margin)
        slopes = flat(ascent.gradient)
        steepness = namespace(slopes).sum(slopes**2, axis=1)
        gap = problem.criterion(problem.rows).lead - np.asarray(to_numpy(ascent.value), np.float64)
        steep = np.asarray(to_numpy(steepness), np.float64)
        guess = np.where(steep > 0, 2 * gap / np.where(steep > 0, steep, 1.0), 1.0)
        if toll:
            steepest = np.asarray(to_numpy(namespace(slopes).max(abs(slopes), axis=1)), np.float64)
            guess = guess + toll / np.where(steepest > 0, steepest, 1.0)
        self.weights: NDArray[np.float64] = np.clip(guess, _SMALLEST, _LARGEST)
        self._low = np.zeros(len(guess))
        self._high = np.full(len(guess), np.inf)

    def narrow(self, met: NDArray[np.bool_]) -> None:
        """Set the next weights, after the last ones gave an adversarial example where `met`."""
        self._high = np.where(met, self.weights, self._high)
        self._low = np.where(met, self._low, self.weights)
        middle = np.sqrt(self._low * np.where(np.isinf(self._high), 0.0, self._high))
        lower = np.where(self._low > 0, middle, self._high / _WIDEN)
        self.weights = np.clip(np.where(np.isinf(self._high), self.weights * _WIDEN, lower), _SMALLEST, _LARGEST)


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
    """Lower cost and weighted hinge from `start`; offer adversarial iterates to `closest`.

    Steps shrink evenly to 0, and every iterate is moved into the box (the paper's projected descent). A sample
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


#: Value and gradient, `(n,)` and `(n, ...)`, at one candidate for each of these rows.
Evaluate = Callable[[Array, Rows], tuple[Array, Array]]

_MEMORY = 10  # pairs of steps and changes of the gradient: SciPy's default
_ENOUGH = 1e-4  # of the fall that the slope promises: the book's
_HALVINGS = 8  # of a step: our choice
_SMALL = 1e-12  # curvature, in proportion to the lengths, below which a pair is ignored


@dataclass(frozen=True, slots=True, eq=False)
class _NewtonState(SampleStates):
    rows: Rows
    at: Array
    value: Array
    gradient: Array


@dataclass(frozen=True, slots=True, eq=False)
class _CurvaturePair(SampleStates):
    """A step, the change of the gradient along it, and one over their product, 0 where it is not positive."""

    step: Array
    change: Array
    inverse: Array


def minimize(evaluate: Evaluate, start: Array, rows: Rows, bounds: tuple[float, float], steps: int) -> None:
    """Descend from `start`; `evaluate` alone sees the points on the way.

    Args:
        start: One point inside the box for each of `rows`.
        steps: At most.
    """
    state, pairs = _NewtonState(rows, start, *evaluate(start, rows)), list[_CurvaturePair]()
    for _ in range(steps):
        if not len(state.rows):
            return
        direction = _direction(state, pairs, bounds)
        moved, fell = _line_search(evaluate, state, direction, bounds)
        pairs = [*pairs, _pair(state, moved)][-_MEMORY:]
        state = moved
        if not fell.all():
            going = np.flatnonzero(fell)
            state, pairs = state.take(going), [pair.take(going) for pair in pairs]


def _direction(state: _NewtonState, pairs: list[_CurvaturePair], bounds: tuple[float, float]) -> Array:
    """Return the quasi-Newton descent direction; at first as long as the gradient is, but at most 1."""
    xp = namespace(state.at)
    stuck = ((state.at <= bounds[0]) & (state.gradient > 0)) | ((state.at >= bounds[1]) & (state.gradient < 0))
    slope = xp.where(stuck, xp.zeros_like(state.gradient), state.gradient)
    if not pairs:
        return -slope / per_sample(xp.maximum(_dot(slope, slope) ** 0.5, xp.ones_like(state.value)), slope)
    shares, direction = [], slope
    for pair in reversed(pairs):
        shares.append(pair.inverse * _dot(pair.step, direction))
        direction = direction - per_sample(shares[-1], direction) * pair.change
    last, curved = pairs[-1], _dot(pairs[-1].change, pairs[-1].change)
    known = (last.inverse > 0) & (curved > 0)
    scale = xp.where(known, 1.0 / xp.where(known, last.inverse * curved, xp.ones_like(curved)), xp.ones_like(curved))
    direction = per_sample(scale, direction) * direction
    for pair, share in zip(pairs, reversed(shares), strict=True):
        direction = direction + per_sample(share - pair.inverse * _dot(pair.change, direction), direction) * pair.step
    direction = xp.where(stuck, xp.zeros_like(direction), direction)
    falls = _dot(direction, slope) > 0
    return -xp.where(per_sample(falls, direction), direction, slope)


def _line_search(
    evaluate: Evaluate, state: _NewtonState, direction: Array, bounds: tuple[float, float]
) -> tuple[_NewtonState, np.ndarray]:
    """Return the longest step after which the value has fallen enough, and the samples for which there is one."""
    xp = namespace(state.at)
    open_, length, moved = np.arange(len(state.rows)), 1.0, state
    for _ in range(_HALVINGS):
        here, ahead = state.take(open_), take(direction, open_)
        there = xp.clip(here.at + length * ahead, *bounds)
        value, gradient = evaluate(there, here.rows)
        promised = _dot(here.gradient, there - here.at)
        fell = to_numpy((value <= here.value + _ENOUGH * promised) & (promised < 0))
        if fell.any():
            done = np.flatnonzero(fell)
            moved = _replace_rows(moved, open_[done], _NewtonState(here.rows, there, value, gradient).take(done))
            open_ = open_[~fell]
        if not len(open_):
            break
        length /= 2
    return moved, ~np.isin(np.arange(len(state.rows)), open_)


def _replace_rows(state: _NewtonState, positions: Rows, new: _NewtonState) -> _NewtonState:
    """Return the state with these samples' rows replaced."""
    if len(positions) == len(state.rows):
        return new
    xp = namespace(state.at)
    at, value, gradient = (xp.asarray(part, copy=True) for part in (state.at, state.value, state.gradient))
    at[positions], value[positions], gradient[positions] = new.at, new.value, new.gradient
    return replace(state, at=at, value=value, gradient=gradient)


def _pair(before: _NewtonState, after: _NewtonState) -> _CurvaturePair:
    xp = namespace(before.at)
    step, change = after.at - before.at, after.gradient - before.gradient
    product = _dot(step, change)
    curves = product > _SMALL * (_dot(step, step) * _dot(change, change)) ** 0.5
    inverse = xp.where(curves, 1.0 / xp.where(curves, product, xp.ones_like(product)), xp.zeros_like(product))
    return _CurvaturePair(step, change, inverse)


def _dot(a: Array, b: Array) -> Array:
    """Return `(n,)` products of samples."""
    return namespace(a).sum((a * b).reshape(len(a), -1), axis=1)
