"""Balls cut by the box, for norms in which a change is shrunk as a whole: the exact clipping that they share."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, as_float64, cast, from_numpy, namespace
from ..arrays.rows import per_sample, take

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
        """The same ball around these samples."""
        return Ball(take(self.x, rows), self.epsilon[rows], self.bounds, self.lengths, self.shrink, self.slack)

    def project(self, candidates: Array) -> Array:
        """The candidates shrunk to the ball, and cut by the box."""
        budget = cast(from_numpy(self.epsilon, self.x), self.x)
        return self._cut(self.x + self._shrunk(candidates - self.x, self.x, budget))

    def clip(self, candidates: Array) -> Array:
        """The same in float64, a part in a million further in wherever rounding would leave the budget."""
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
