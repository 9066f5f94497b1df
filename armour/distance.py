"""Distances between inputs: how far a candidate is, and the region that a budget allows.

Both distances promise that what `Region.clip` returns is inside the box and, measured in float64, never a bit beyond
epsilon: rounding to the input's dtype is always inward.
"""

from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..storage import nearest
from .arrays import Array, Rows, as_float64, cast, namespace, per_sample, to_numpy
from .errors import UnknownAttack

Norm = Literal["l2", "linf"]


class Region(Protocol):
    """All inputs within a budget of each sample and inside the box."""

    def take(self, rows: Rows) -> "Region":
        """The region around these samples of the batch."""

    def project(self, candidates: Array) -> Array:
        """The candidates moved into the region, to rounding: for use within a search."""

    def clip(self, candidates: Array) -> Array:
        """The candidates moved into the region, exactly: what is returned to the caller."""


class Distance(Protocol):
    """One norm: measure, steepest direction, random points, region."""

    name: Norm

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` distances, in float64."""

    def steepest(self, gradient: Array) -> Array:
        """The step of length 1 that follows the gradient best; zero where the gradient is zero."""

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points drawn uniformly from the unit ball, `shape` is `(n, ...)`."""

    def region(self, x: Array, epsilon: float, bounds: tuple[float, float]) -> Region:
        """The inputs within `epsilon` of `x` and inside `bounds`."""


class Linf:
    """Largest absolute change of any element."""

    name: Norm = "linf"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` largest absolute differences."""
        xp = namespace(x)
        difference = xp.abs(as_float64(candidates) - as_float64(x))
        return to_numpy(xp.amax(difference.reshape(len(x), -1), axis=1))

    def steepest(self, gradient: Array) -> Array:
        """The gradient's signs."""
        return namespace(gradient).sign(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points of the unit cube around 0."""
        return generator.uniform(-1.0, 1.0, shape)

    def region(self, x: Array, epsilon: float, bounds: tuple[float, float]) -> Region:
        """A box for every element, rounded inward."""
        xp = namespace(x)
        exact = as_float64(x)
        low, high = cast(exact - epsilon, x), cast(exact + epsilon, x)
        while xp.any(outside := exact - as_float64(low) > epsilon):
            low = xp.where(outside, xp.nextafter(low, x), low)
        while xp.any(outside := as_float64(high) - exact > epsilon):
            high = xp.where(outside, xp.nextafter(high, x), high)
        return _Box(xp.clip(low, bounds[0], bounds[1]), xp.clip(high, bounds[0], bounds[1]))


class L2:
    """Euclidean length of the change of a whole sample."""

    name: Norm = "l2"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` Euclidean lengths."""
        return to_numpy(_lengths(as_float64(candidates) - as_float64(x)))

    def steepest(self, gradient: Array) -> Array:
        """The gradient scaled to length 1, safe from overflow and underflow."""
        xp = namespace(gradient)
        largest = per_sample(xp.amax(xp.abs(gradient.reshape(len(gradient), -1)), axis=1), gradient)
        scaled = gradient / xp.where(largest > 0, largest, 1.0)
        length = per_sample(_lengths(scaled), gradient)
        return scaled / xp.where(length > 0, length, 1.0)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points of the unit ball around 0: a random direction, a radius by volume."""
        direction = self.steepest(generator.standard_normal(shape))
        size = int(np.prod(shape[1:]))
        radius: NDArray[np.float64] = generator.uniform(0.0, 1.0, shape[0]) ** (1.0 / size)
        return np.asarray(direction * per_sample(radius, direction), np.float64)

    def region(self, x: Array, epsilon: float, bounds: tuple[float, float]) -> Region:
        """The ball, cut by the box."""
        return _Ball(x, epsilon, bounds)


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    low: Array
    high: Array

    def take(self, rows: Rows) -> "_Box":
        return _Box(self.low[rows], self.high[rows])

    def project(self, candidates: Array) -> Array:
        return namespace(candidates).clip(candidates, self.low, self.high)

    clip = project


@dataclass(frozen=True, slots=True, eq=False)
class _Ball:
    x: Array
    epsilon: float
    bounds: tuple[float, float]

    def take(self, rows: Rows) -> "_Ball":
        return _Ball(self.x[rows], self.epsilon, self.bounds)

    def project(self, candidates: Array) -> Array:
        change = candidates - self.x
        shrink = per_sample(_shrinkage(_lengths(change), self.epsilon), change)
        return namespace(change).clip(self.x + shrink * change, self.bounds[0], self.bounds[1])

    def clip(self, candidates: Array) -> Array:
        xp = namespace(candidates)
        exact = as_float64(self.x)
        change = as_float64(xp.clip(candidates, self.bounds[0], self.bounds[1])) - exact
        budget = self.epsilon
        for _ in range(_ROUNDING_ATTEMPTS):
            shrink = per_sample(_shrinkage(_lengths(change), budget), change)
            clipped = xp.clip(cast(exact + shrink * change, self.x), self.bounds[0], self.bounds[1])
            outside = _lengths(as_float64(clipped) - exact) > self.epsilon
            if not xp.any(outside):
                return clipped
            budget *= 1.0 - _INWARD
        return xp.where(per_sample(outside, clipped), self.x, clipped)


# Rounding to float32 moves a length by about 6e-8 of the input's size: our choice of one part in a million a step, and
# of giving up, with the clean input as answer, when the budget itself is of the size of rounding.
_INWARD = 1e-6
_ROUNDING_ATTEMPTS = 16


def _lengths(change: Array) -> Array:
    flat = change.reshape(len(change), -1)
    xp = namespace(flat)
    return xp.sqrt(xp.sum(flat * flat, axis=1))


def _shrinkage(lengths: Array, budget: float) -> Array:
    """`(n,)` factors, at most 1, that bring the lengths within the budget."""
    xp = namespace(lengths)
    return xp.where(lengths > budget, budget / xp.where(lengths > 0, lengths, 1.0), 1.0)


DISTANCES: Final[dict[str, Distance]] = {"l2": L2(), "linf": Linf()}


def distance_named(norm: str) -> Distance:
    """The distance of that name.

    Raises:
        UnknownAttack: There is none; the message lists the known ones.
    """
    if norm not in DISTANCES:
        raise UnknownAttack(f"no norm {norm!r}; norms are {', '.join(DISTANCES)}{nearest(norm, DISTANCES)}")
    return DISTANCES[norm]
