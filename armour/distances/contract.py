"""What a distance offers a search: a measure, directions, random points, and the region that a budget allows.

Every region promises that what `Region.clip` returns is inside the box and, measured in float64, never a bit beyond
its budget: rounding to the input's dtype is always inward.
"""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows

Norm = Literal["l0", "l1", "l2", "linf"]


class Region(Protocol):
    """All inputs within a budget of each sample and inside the box."""

    def take(self, rows: Rows) -> "Region":
        """The region around these samples of the batch."""

    def project(self, candidates: Array) -> Array:
        """The nearest points of the region, to rounding: for use within a search."""

    def clip(self, candidates: Array) -> Array:
        """The candidates moved into the region, exactly: what is returned to the caller."""


class Distance(Protocol):
    """One norm."""

    name: Norm

    def measure(self, x: Array, candidates: Array) -> NDArray[np.float64]:
        """`(n,)` distances, in float64."""

    def steepest(self, gradient: Array) -> Array:
        """The step of length 1 that follows the gradient best; zero where the gradient is zero."""

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Points drawn uniformly from the unit ball, `shape` is `(n, ...)`."""

    def region(self, x: Array, epsilon: NDArray[np.float64], bounds: tuple[float, float]) -> Region:
        """The inputs within `(n,)` `epsilon` of each `x` and inside `bounds`; an infinite budget leaves the box."""
