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


def deviation(matrix: Floats, *, floor: float = 0.05) -> Floats:
    """Robust deviation of every value from its own row's history, in units of that row's usual spread.

    Norms live on a logarithmic scale, so a row of positive values is compared by its logarithm, any other row as it is.
    The usual is the median, its spread the median absolute deviation. Only finite values are learned from.

    Args:
        matrix: `(sites, steps)`; NaN where there is no value.
        floor: Smallest spread, so that a row that never moved does not turn rounding into alarm: in natural logarithms
            for positive rows (0.05 is 5 %), in units of the row's median magnitude for others. Our choice.

    Returns:
        `(sites, steps)` float64, signed: +3 is three spreads above the usual. NaN stays NaN, infinity its sign.
    """
    values = np.asarray(matrix, dtype=np.float64)
    if values.size == 0:
        return values.copy()
    finite = np.isfinite(values)
    positive = np.where(finite, values > 0, True).all(axis=1, keepdims=True)
    magnitude = np.where(finite, np.abs(values), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(positive, np.log(np.where(positive, values, 1.0)), values)
    known = np.where(finite, scaled, np.nan)
    usual = _row_medians(known)
    spread = _NORMAL * _row_medians(np.abs(known - usual))
    scale = _row_medians(magnitude)
    least = np.where(positive, floor, floor * scale)
    width = np.maximum(spread, np.where(least > 0, least, np.finfo(np.float64).tiny))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isinf(values), values, (scaled - usual) / width)


def _row_medians(values: Floats) -> Floats:
    """`(rows, 1)` median of each row's numbers; NaN where it has none."""
    found = np.full((len(values), 1), np.nan)
    some = ~np.isnan(values).all(axis=1)
    if some.any():
        found[some] = np.nanmedian(values[some], axis=1, keepdims=True)
    return found
