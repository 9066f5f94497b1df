"""Windows over a run's own history: what was usual, and how far from it the newest value lies."""

from bisect import bisect_left, insort
from collections import deque
from itertools import pairwise
from math import isfinite, nan, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Makes the median absolute deviation of normal noise equal to its standard deviation.
_NORMAL = 1.4826


def median(values: Floats) -> float:
    """Median of finite values, NaN of none; several times faster than NumPy's on the few values of one step."""
    count = len(values)
    if count == 0:
        return float("nan")
    middle = count // 2
    if count % 2:
        return float(np.partition(values, middle)[middle])
    parted = np.partition(values, (middle - 1, middle))
    return float(0.5 * (parted[middle - 1] + parted[middle]))


class Window:
    """The newest finite values of one scalar; what is not finite is never learned.

    They are kept in order of time and in order of size, so that the median costs nothing and learning next to nothing.

    Args:
        length: How many values are kept.
    """

    def __init__(self, length: int) -> None:
        self._values: deque[float] = deque(maxlen=length)
        self._ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> None:
        """Learns the value if it is finite."""
        if not isfinite(value):
            return
        if len(self._values) == self._values.maxlen:
            del self._ordered[bisect_left(self._ordered, self._values[0])]
        self._values.append(float(value))
        insort(self._ordered, float(value))

    def newest(self, count: int) -> list[float]:
        """The last values, oldest of them first; fewer when the window holds fewer."""
        return list(self._values)[-count:]

    def median(self) -> float:
        """Median of the window, NaN while it is empty."""
        return _middle(self._ordered)

    def spread(self) -> float:
        """Median absolute deviation, scaled to a normal's standard deviation; NaN while the window is empty."""
        center = self.median()
        return _NORMAL * _middle(sorted([abs(value - center) for value in self._ordered]))

    def noise(self) -> float:
        """Spread of one value around the trend, from the differences of neighbours; NaN while there are none."""
        differences = sorted([later - earlier for earlier, later in pairwise(self._values)])
        center = _middle(differences)
        return _NORMAL / sqrt(2) * _middle(sorted([abs(difference - center) for difference in differences]))


def _middle(ordered: list[float]) -> float:
    """Median of values in ascending order, NaN of none."""
    if not ordered:
        return nan
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


class Streaks:
    """For every row of a subject, for how many observations in a row something has been so.

    Rows that are not observed keep their count.
    """

    def __init__(self) -> None:
        self.lengths: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.since: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def update(self, holds: Mask, present: Mask, step: int) -> NDArray[np.int64]:
        """`(rows,)` lengths after this observation; `since` holds the step at which each streak began."""
        if len(self.lengths) < len(holds):
            grown = len(holds) - len(self.lengths)
            self.lengths = np.pad(self.lengths, (0, grown))
            self.since = np.pad(self.since, (0, grown))
        if not holds.any():
            self.lengths[present] = 0
            return self.lengths
        started = holds & present & (self.lengths == 0)
        self.since[started] = step
        self.lengths[present & ~holds] = 0
        self.lengths[present & holds] += 1
        return self.lengths
