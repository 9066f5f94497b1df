"""The four norms: how far a candidate is from its input, and the region that a budget allows.

Every region promises that what `Region.clip` returns is inside the box and, measured in float64, never a bit beyond
its budget: rounding to the input's dtype is always inward.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, as_float64, cast, flat, from_numpy, namespace, per_sample, take, to_numpy

Norm = Literal["l0", "l1", "l2", "linf"]


class Region(Protocol):
    """All inputs within a budget of each sample and inside the box."""

    def take(self, rows: Rows) -> "Region":
        """Return the region around these samples of the batch."""

    def project(self, candidates: Array) -> Array:
        """Return the nearest points of the region, up to rounding: for use within a search."""

    def clip(self, candidates: Array) -> Array:
        """Move the candidates into the region, exactly: for what the caller gets."""


class Distance(Protocol):
    """One norm."""

    name: Norm

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """Return `(n,)` distances, in float64."""

    def steepest(self, gradient: Array) -> Array:
        """Return the step of length 1 that follows the gradient best; zero where the gradient is zero."""

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw points uniformly from the unit ball; `shape` is `(n, ...)`."""

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Region:
        """Return the inputs within `(n,)` `epsilon` of each `x` and inside `bounds`; epsilon may be infinite."""


#: Shrinks `(n, ...)` changes to `(n,)` budgets; also given where the box ends below and above each element.
Shrink = Callable[[Array, Array, Array, Array], Array]
Lengths = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """The region of one norm.

    Args:
        epsilon: `(n,)` float64.
        lengths: `(n,)` norms of changes.
        shrink: Moves changes to the nearest of the norm's ball, and of the box where that is joint work.
        slack: Relative, by which exact clipping stays below the budget.
    """

    x: Array
    epsilon: NDArray[np.float64]
    bounds: tuple[float, float]
    lengths: Lengths
    shrink: Shrink
    slack: float = 1e-14  # so that a sum of squares in any other order agrees that the budget was kept

    def take(self, rows: Rows) -> "Ball":
        """Return the same ball around these samples."""
        return Ball(take(self.x, rows), self.epsilon[rows], self.bounds, self.lengths, self.shrink, self.slack)

    def project(self, candidates: Array) -> Array:
        """Shrink the candidates to the ball and cut them by the box."""
        budget = cast(from_numpy(self.epsilon, self.x), self.x)
        return self._cut(self.x + self._shrunk(candidates - self.x, self.x, budget))

    def clip(self, candidates: Array) -> Array:
        """Do the same in float64, a part in a million further in where rounding would leave the budget."""
        xp = namespace(candidates)
        exact, limit = as_float64(self.x), from_numpy(self.epsilon, self.x)
        change = as_float64(self._cut(candidates)) - exact
        budget = limit
        for _ in range(_ROUNDING_ATTEMPTS):
            clipped = self._cut(cast(exact + self._shrunk(change, exact, budget), self.x))
            outside = self.lengths(as_float64(clipped) - exact) > limit * (1.0 - self.slack)
            if not xp.any(outside):
                return clipped
            budget = xp.where(outside, budget * (1.0 - _INWARD), budget)
        return xp.where(per_sample(outside, clipped), self.x, clipped)

    def _shrunk(self, change: Array, x: Array, budget: Array) -> Array:
        beyond = self.lengths(change) > budget
        if not namespace(change).any(beyond):
            return change
        shrunk = self.shrink(change, budget, x - self.bounds[0], self.bounds[1] - x)
        return namespace(change).where(per_sample(beyond, change), shrunk, change)

    def _cut(self, candidates: Array) -> Array:
        return namespace(candidates).clip(candidates, self.bounds[0], self.bounds[1])


# Rounding to float32 moves a length by about 6e-8 of the input's size: our choice of one part in a million a step, and
# of giving up, with the clean input as answer, when the budget itself is of the size of rounding.
_INWARD = 1e-6
_ROUNDING_ATTEMPTS = 16


class Linf:
    """Largest absolute change of any element."""

    name: Norm = "linf"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """Return `(n,)` largest absolute differences."""
        xp = namespace(x)
        gaps = xp.astype(candidates, xp.float64, copy=True)
        gaps -= x  # in place: what a call allocates costs more than what it computes
        rows = flat(gaps)
        return to_numpy(xp.maximum(xp.max(rows, axis=1), -xp.min(rows, axis=1))) + 0.0  # no distance is minus zero

    def steepest(self, gradient: Array) -> Array:
        """Return the gradient's signs."""
        return _signs(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw points of the unit cube around 0."""
        return generator.uniform(-1.0, 1.0, shape)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> "_Box":
        """Return a box for every element, rounded inward."""
        low, high = bounds
        budget, rest = _halves(np.minimum(epsilon, high - low), x)
        edges = (_inward(x, per_sample(sign * budget, x), sign, per_sample(rest, x)) for sign in (-1.0, 1.0))
        return _Box(*(edge.clip(low, high) for edge in edges))


def _halves(epsilon: NDArray[np.float64], x: Array) -> tuple[Array, Array]:
    """Split budgets into the sum of two numbers in the dtype of `x`, both rounded down."""
    dtype = to_numpy(x[:0]).dtype
    rounded = epsilon.astype(dtype)
    large = np.where(rounded > epsilon, np.nextafter(rounded, dtype.type(0)), rounded)
    small = np.nextafter((epsilon - large).astype(dtype), dtype.type(0))
    return from_numpy(large, x), from_numpy(small, x)


def _inward(x: Array, change: Array, sign: float, rest: Array) -> Array:
    """Return `x + change`, one step of its dtype towards `x` wherever rounding has moved it away by more than `rest`.

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
    """Return the signs; the standard's wrapper of torch looks for NaN first, at ten times the cost."""
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


class L2:
    """Euclidean length of the change of a whole sample."""

    name: Norm = "l2"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """Return `(n,)` Euclidean lengths."""
        return to_numpy(euclidean(as_float64(candidates) - as_float64(x)))

    def steepest(self, gradient: Array) -> Array:
        """Return the gradient scaled to length 1, safe from overflow and underflow."""
        xp = namespace(gradient)
        largest = per_sample(xp.max(flat(xp.abs(gradient)), axis=1), gradient)
        scaled = gradient / xp.where(largest > 0, largest, xp.ones_like(largest))
        length = per_sample(euclidean(scaled), gradient)
        return scaled / xp.where(length > 0, length, xp.ones_like(length))

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw points of the unit ball around 0: a random direction, a radius by volume."""
        direction = self.steepest(generator.standard_normal(shape))
        size = int(np.prod(shape[1:]))
        radius: NDArray[np.float64] = generator.uniform(0.0, 1.0, shape[0]) ** (1.0 / size)
        return np.asarray(direction * per_sample(radius, direction), np.float64)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Ball:
        """Return the ball, cut by the box."""
        return Ball(x, epsilon, bounds, euclidean, _scale)


def euclidean(change: Array) -> Array:
    """Return `(n,)` Euclidean lengths of `(n, ...)` changes, in their dtype."""
    xp, rows = namespace(change), flat(change)
    return xp.sqrt(xp.sum(rows * rows, axis=1))


def _scale(change: Array, budget: Array, below: Array, above: Array) -> Array:
    """Scale changes to the ball; the caller then cuts by the box, which only shortens them."""
    xp = namespace(change)
    lengths = euclidean(change)
    return change * per_sample(budget / xp.where(lengths > 0, lengths, xp.ones_like(lengths)), change)


class L1:
    """Sum of the absolute changes of a whole sample."""

    name: Norm = "l1"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """Return `(n,)` sums of absolute differences."""
        return to_numpy(_sums(as_float64(candidates) - as_float64(x)))

    def steepest(self, gradient: Array) -> Array:
        """Return the sign of the gradient at its largest element (the first of several), zero elsewhere."""
        return largest_element(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw points of the unit ball around 0: signed exponential variables over their sum and one more."""
        size = int(np.prod(shape[1:]))
        drawn = generator.standard_exponential((shape[0], size + 1))
        signs = generator.choice((-1.0, 1.0), (shape[0], size))
        return np.asarray((signs * drawn[:, :-1] / drawn.sum(axis=1, keepdims=True)).reshape(shape), np.float64)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Ball:
        """Return the ball, cut by the box: the projection is onto both at once."""
        return Ball(x, epsilon, bounds, _sums, _soft_threshold)


def largest_element(gradient: Array) -> Array:
    """Return signs at the largest absolute element of each sample, the first of several; zero where all are zero."""
    xp, rows = namespace(gradient), flat(gradient)
    at = xp.argmax(xp.abs(rows), axis=1)
    positions = xp.cumulative_sum(xp.ones_like(rows[:1]), axis=1) - 1
    return xp.where(positions == at[:, None], xp.sign(rows), xp.zeros_like(rows)).reshape(gradient.shape)


def _sums(change: Array) -> Array:
    xp = namespace(change)
    return xp.sum(xp.abs(flat(change)), axis=1)


def _soft_threshold(change: Array, budget: Array, below: Array, above: Array) -> Array:
    """Return the nearest change of the ball and the box: every element loses the same amount, then the box cuts.

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
    index = xp.sum(xp.astype(sums < budget[:, None], xp.int64), axis=1)[:, None]
    reached = xp.where(index > 0, xp.take_along_axis(sums, xp.clip(index - 1, 0, None), axis=1), 0.0)
    rate = xp.take_along_axis(growing, index, axis=1)
    missing = (budget[:, None] - reached) / xp.where(rate > 0, rate, xp.ones_like(rate))
    threshold = xp.clip(xp.take_along_axis(events, index, axis=1) - missing, 0.0, None)
    return xp.sign(change) * xp.minimum(xp.clip(size - threshold, 0.0, None), room).reshape(change.shape)


class L0:
    """Number of changed elements of a whole sample; a budget of 3.7 allows 3."""

    name: Norm = "l0"

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """Return `(n,)` numbers of changed elements."""
        return to_numpy(_count_changed(candidates - x)).astype(np.float64)

    def steepest(self, gradient: Array) -> Array:
        """Return the sign of the gradient at its largest element: one element changes."""
        return largest_element(gradient)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw changes of one element by up to 1."""
        points = np.zeros((shape[0], int(np.prod(shape[1:]))))
        points[np.arange(shape[0]), generator.integers(0, points.shape[1], shape[0])] = generator.uniform(
            -1, 1, shape[0]
        )
        return points.reshape(shape)

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Ball:
        """Return all inputs of the box with so few changes; the largest changes are kept."""
        return Ball(x, epsilon, bounds, _count_changed, _largest, slack=0.0)


def _count_changed(change: Array) -> Array:
    xp = namespace(change)
    return xp.sum(xp.astype(flat(change) != 0, xp.float64), axis=1)


def _largest(change: Array, budget: Array, below: Array, above: Array) -> Array:
    xp, rows = namespace(change), flat(change)
    order = xp.argsort(xp.abs(rows), axis=1, descending=True, stable=True)
    rank = xp.argsort(order, axis=1, stable=True)
    return xp.where(rank < xp.floor(budget)[:, None], rows, xp.zeros_like(rows)).reshape(change.shape)
