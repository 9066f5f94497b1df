"""The Euclidean length of the change of a whole sample."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, as_float64, namespace, to_numpy
from ..arrays.rows import flat, per_sample
from .ball import Ball
from .contract import Norm


class L2:
    """Euclidean length of the change of a whole sample."""

    name: Norm = "l2"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` Euclidean lengths."""
        return to_numpy(euclidean(as_float64(candidates) - as_float64(x)))

    def steepest(self, gradient: Array) -> Array:
        """The gradient scaled to length 1, safe from overflow and underflow."""
        xp = namespace(gradient)
        largest = per_sample(xp.max(flat(xp.abs(gradient)), axis=1), gradient)
        scaled = gradient / xp.where(largest > 0, largest, xp.ones_like(largest))
        length = per_sample(euclidean(scaled), gradient)
        return scaled / xp.where(length > 0, length, xp.ones_like(length))

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points of the unit ball around 0: a random direction, a radius by volume."""
        direction = self.steepest(generator.standard_normal(shape))
        size = int(np.prod(shape[1:]))
        radius: NDArray[np.float64] = generator.uniform(0.0, 1.0, shape[0]) ** (1.0 / size)
        return np.asarray(direction * per_sample(radius, direction), np.float64)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Ball:
        """The ball, cut by the box."""
        return Ball(x, epsilon, bounds, euclidean, _scaled)


def euclidean(change: Array) -> Array:
    """`(n,)` Euclidean lengths of `(n, ...)` changes, in their dtype."""
    xp, rows = namespace(change), flat(change)
    return xp.sqrt(xp.sum(rows * rows, axis=1))


def _scaled(change: Array, budget: Array, below: Array, above: Array) -> Array:
    """Scaled to the ball; the caller then cuts by the box, which only shortens."""
    xp = namespace(change)
    lengths = euclidean(change)
    return change * per_sample(budget / xp.where(lengths > 0, lengths, xp.ones_like(lengths)), change)
