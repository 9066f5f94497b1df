"""Windows over a run's own history: what was usual, and how far from it the newest value lies."""

from collections import deque

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

    Args:
        length: How many values are kept.
    """

    def __init__(self, length: int) -> None:
        self._values: deque[float] = deque(maxlen=length)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> None:
        """Learns the value if it is finite."""
        if np.isfinite(value):
            self._values.append(float(value))

    def newest(self, count: int) -> list[float]:
        """The last values, oldest of them first; fewer when the window holds fewer."""
        return list(self._values)[-count:]

    def median(self) -> float:
        """Median of the window, NaN while it is empty."""
        return median(np.array(self._values))

    def spread(self) -> float:
        """Median absolute deviation, scaled to a normal's standard deviation; NaN while the window is empty."""
        values = np.array(self._values)
        return _NORMAL * median(np.abs(values - median(values)))

    def noise(self) -> float:
        """Spread of one value around the trend, from the differences of neighbours; NaN while there are none."""
        differences = np.diff(np.array(self._values))
        return _NORMAL / float(np.sqrt(2)) * median(np.abs(differences - median(differences)))


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
