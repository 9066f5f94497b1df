"""The nearest adversarial example of each sample that a search has met so far."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, copy
from ..arrays.rows import per_sample, take
from ..problem import Problem


class Closest:
    """Keeps the nearest adversarial candidate of each sample; the clean input where there is none yet.

    Args:
        problem: Measures in its own distance.
    """

    def __init__(self, problem: Problem) -> None:
        self.candidates = copy(problem.x)
        self.distances = np.full(len(problem.x), np.inf)
        self._problem = problem

    @property
    def found(self) -> NDArray[np.bool_]:
        """`(n,)` bool, True where an adversarial example is known."""
        return np.asarray(np.isfinite(self.distances), np.bool_)

    def offer(self, candidates: Array, rows: Rows, met: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Takes what is adversarial and nearer than what was known.

        Args:
            candidates: One for each of `rows`, inside the box.
            met: `(len(rows),)` whether it is adversarial.

        Returns:
            `(len(rows),)` bool, True where it was taken.
        """
        taken = np.zeros(len(rows), np.bool_)
        at = np.flatnonzero(met)
        if len(at):
            offered = take(candidates, at)
            distances = self._problem.distance.measure(take(self._problem.x, rows[at]), offered)
            nearer = distances < self.distances[rows[at]]
            at = at[nearer]
            taken[at] = True
            self.candidates[rows[at]] = take(offered, np.flatnonzero(nearer))
            self.distances[rows[at]] = distances[nearer]
        return taken

    def tighten(self, steps: int) -> Array:
        """The candidates after `steps` halvings of the way to the input, which only a model's answers decide."""
        rows = np.flatnonzero(self.found & (self.distances > 0))
        near, far = np.zeros(len(rows)), np.ones(len(rows))
        x = take(self._problem.x, rows)
        way = take(self.candidates, rows) - x
        for _ in range(steps if len(rows) else 0):
            middle = (near + far) / 2
            candidates = x + per_sample(self._problem.native(middle), x) * way
            met = self._problem.is_adversarial(candidates, rows)
            self.offer(candidates, rows, met)
            near, far = np.where(met, near, middle), np.where(met, middle, far)
        return self.candidates
