"""The number of elements that are changed at all."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, namespace, to_numpy
from ..arrays.rows import flat
from .ball import Ball
from .contract import Norm
from .l1 import largest_element


class L0:
    """Number of changed elements of a whole sample; a budget of 3.7 allows 3."""

    name: Norm = "l0"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` numbers of changed elements."""
        return to_numpy(_changed(candidates - x)).astype(np.float64)

    def steepest(self, gradient: Array) -> Array:
        """The sign of the gradient at its largest element: one element changes."""
        return largest_element(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Changes of one element by up to 1."""
        points = np.zeros((shape[0], int(np.prod(shape[1:]))))
        points[np.arange(shape[0]), generator.integers(0, points.shape[1], shape[0])] = generator.uniform(
            -1, 1, shape[0]
        )
        return points.reshape(shape)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Ball:
        """All inputs of the box with so few changes; the largest changes are kept."""
        return Ball(x, epsilon, bounds, _changed, _largest, slack=0.0)


def _changed(change: Array) -> Array:
    xp = namespace(change)
    return xp.sum(xp.astype(flat(change) != 0, xp.float64), axis=1)


def _largest(change: Array, budget: Array, below: Array, above: Array) -> Array:
    xp, rows = namespace(change), flat(change)
    order = xp.argsort(xp.abs(rows), axis=1, descending=True, stable=True)
    rank = xp.argsort(order, axis=1, stable=True)
    return xp.where(rank < xp.floor(budget)[:, None], rows, xp.zeros_like(rows)).reshape(change.shape)
