"""The largest absolute change of any element."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, as_float64, cast, from_numpy, namespace, to_numpy
from ..arrays.rows import flat, per_sample
from .contract import Norm


class Linf:
    """Largest absolute change of any element."""

    name: Norm = "linf"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` largest absolute differences."""
        xp = namespace(x)
        return to_numpy(xp.max(flat(xp.abs(as_float64(candidates) - as_float64(x))), axis=1))

    def steepest(self, gradient: Array) -> Array:
        """The gradient's signs; the standard's wrapper of torch looks for NaN first, at three times the cost."""
        return gradient.sign() if hasattr(gradient, "sign") else namespace(gradient).sign(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points of the unit cube around 0."""
        return generator.uniform(-1.0, 1.0, shape)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> "_Box":
        """A box for every element, rounded inward."""
        xp = namespace(x)
        exact, budget = as_float64(x), per_sample(from_numpy(epsilon, x), x)
        low, high = cast(exact - budget, x), cast(exact + budget, x)
        while xp.any(outside := exact - as_float64(low) > budget):
            low = xp.where(outside, xp.nextafter(low, x), low)
        while xp.any(outside := as_float64(high) - exact > budget):
            high = xp.where(outside, xp.nextafter(high, x), high)
        return _Box(xp.clip(low, bounds[0], bounds[1]), xp.clip(high, bounds[0], bounds[1]))


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    low: Array
    high: Array

    def take(self, rows: Rows) -> "_Box":
        return _Box(self.low[rows], self.high[rows])

    def project(self, candidates: Array) -> Array:
        xp = namespace(candidates)  # plain comparisons: clip of the standard's torch wrapper costs three times as much
        return xp.minimum(xp.maximum(candidates, self.low), self.high)

    clip = project
