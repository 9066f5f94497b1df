"""The largest absolute change of any element."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, from_numpy, namespace, to_numpy
from ..arrays.rows import flat, per_sample, take
from .contract import Norm


class Linf:
    """Largest absolute change of any element."""

    name: Norm = "linf"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` largest absolute differences."""
        xp = namespace(x)
        gaps = xp.astype(candidates, xp.float64, copy=True)
        gaps -= x  # in place: what a call allocates costs more than what it computes
        rows = flat(gaps)
        return to_numpy(xp.maximum(xp.max(rows, axis=1), -xp.min(rows, axis=1))) + 0.0  # no distance is minus zero

    def steepest(self, gradient: Array) -> Array:
        """The gradient's signs."""
        return _signs(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points of the unit cube around 0."""
        return generator.uniform(-1.0, 1.0, shape)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> "_Box":
        """A box for every element, rounded inward."""
        low, high = bounds
        budget, rest = _halves(np.minimum(epsilon, high - low), x)
        edges = (_inward(x, per_sample(sign * budget, x), sign, per_sample(rest, x)) for sign in (-1.0, 1.0))
        return _Box(*(edge.clip(low, high) for edge in edges))


def _halves(epsilon: NDArray[np.float64], x: Array) -> tuple[Array, Array]:
    """Budgets as the sum of two numbers in the dtype of `x`, both rounded down."""
    dtype = to_numpy(x[:0]).dtype
    rounded = epsilon.astype(dtype)
    large = np.where(rounded > epsilon, np.nextafter(rounded, dtype.type(0)), rounded)
    small = np.nextafter((epsilon - large).astype(dtype), dtype.type(0))
    return from_numpy(large, x), from_numpy(small, x)


def _inward(x: Array, change: Array, sign: float, rest: Array) -> Array:
    """`x + change`, one step of its dtype towards `x` wherever rounding has moved it away by more than `rest`.

    Rounding errors of a sum are themselves numbers of the dtype, so no element is converted to double precision. In
    place wherever it can be: on a CPU a new array costs ten times the sum that it holds.

    Reference:
        Knuth 1997, The Art of Computer Programming 2, section 4.2.2, theorem B (the exact error of a sum).
    """
    edge = x + change
    moved = edge - x
    beyond = edge - moved
    beyond -= x
    moved -= change
    beyond += moved  # edge = x + change + beyond, exactly
    step = namespace(x).nextafter(edge, x)
    step -= edge
    step *= beyond > rest if sign > 0 else beyond < -rest
    edge += step
    return edge


def _signs(values: Array) -> Array:
    """What the standard's wrapper of torch returns, which looks for NaN first, at ten times the cost."""
    return values.sign() if hasattr(values, "sign") else namespace(values).sign(values)


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    low: Array
    high: Array

    def take(self, rows: Rows) -> "_Box":
        return _Box(take(self.low, rows), take(self.high, rows))

    def project(self, candidates: Array) -> Array:
        xp = namespace(candidates)  # plain comparisons: clip of the standard's torch wrapper costs three times as much
        return xp.minimum(xp.maximum(candidates, self.low), self.high)

    clip = project
