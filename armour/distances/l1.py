"""The sum of absolute changes of a whole sample."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, as_float64, namespace, to_numpy
from ..arrays.rows import flat
from .ball import Ball
from .contract import Norm


class L1:
    """Sum of the absolute changes of a whole sample."""

    name: Norm = "l1"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` sums of absolute differences."""
        return to_numpy(_sums(as_float64(candidates) - as_float64(x)))

    def steepest(self, gradient: Array) -> Array:
        """The sign of the gradient at its largest element (the first of several), zero elsewhere."""
        return largest_element(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points of the unit ball around 0: exponential variables with signs, normalised by their sum and one more."""
        size = int(np.prod(shape[1:]))
        drawn = generator.standard_exponential((shape[0], size + 1))
        signs = generator.choice((-1.0, 1.0), (shape[0], size))
        return np.asarray((signs * drawn[:, :-1] / drawn.sum(axis=1, keepdims=True)).reshape(shape), np.float64)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Ball:
        """The ball, cut by the box: the projection is onto both at once."""
        return Ball(x, epsilon, bounds, _sums, _thresholded)


def largest_element(gradient: Array) -> Array:
    """Signs at the largest absolute element of each sample, the first of several; zero where all are zero."""
    xp, rows = namespace(gradient), flat(gradient)
    at = xp.argmax(xp.abs(rows), axis=1)
    positions = xp.cumulative_sum(xp.ones_like(rows[:1]), axis=1) - 1
    return xp.where(positions == at[:, None], xp.sign(rows), xp.zeros_like(rows)).reshape(gradient.shape)


def _sums(change: Array) -> Array:
    xp = namespace(change)
    return xp.sum(xp.abs(flat(change)), axis=1)


def _thresholded(change: Array, budget: Array, below: Array, above: Array) -> Array:
    """The nearest change of the ball and the box: every element loses the same amount, then the box cuts.

    Reference:
        Croce and Hein 2021, arXiv:2103.01208, proposition 2.1; the threshold is exact, by sorting.
    """
    xp = namespace(change)
    size, room = flat(xp.abs(change)), flat(xp.where(change > 0, above, below))
    # Lowering the threshold from the largest element, each begins to count at its size and stops growing at its room.
    events = xp.concat([size, size - room], axis=1)
    turns = xp.concat([xp.ones_like(size), -xp.ones_like(size)], axis=1)
    order = xp.argsort(events, axis=1, descending=True)
    events = xp.take_along_axis(events, order, axis=1)
    growing = xp.cumulative_sum(xp.take_along_axis(turns, order, axis=1), axis=1)
    sums = xp.cumulative_sum(growing[:, :-1] * (events[:, :-1] - events[:, 1:]), axis=1)  # at the events but the first
    place = xp.sum(xp.astype(sums < budget[:, None], xp.int64), axis=1)[:, None]
    reached = xp.where(place > 0, xp.take_along_axis(sums, xp.clip(place - 1, 0, None), axis=1), 0.0)
    rate = xp.take_along_axis(growing, place, axis=1)
    missing = (budget[:, None] - reached) / xp.where(rate > 0, rate, xp.ones_like(rate))
    threshold = xp.clip(xp.take_along_axis(events, place, axis=1) - missing, 0.0, None)
    return xp.sign(change) * xp.minimum(xp.clip(size - threshold, 0.0, None), room).reshape(change.shape)
