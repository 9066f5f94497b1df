"""Running statistics for rules: windows, robust baselines, streaks of records, and trends."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite, log10, nan, sqrt
from typing import Final

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


def medians(values: Floats) -> list[float]:
    """Return the median of each row of finite values `(rows, n)`, as `median` does."""
    count = values.shape[1]
    if count == 0:
        return [float("nan")] * len(values)
    middle = count // 2
    parted = np.partition(values, middle if count % 2 else (middle - 1, middle), axis=1)
    found: Floats = parted[:, middle] if count % 2 else 0.5 * (parted[:, middle - 1] + parted[:, middle])
    return list(found.tolist())


class Window:
    """The newest finite values of one scalar; other values are never added.

    They are kept in order of time. The first call of `median` also sorts them, the first call of `noise` sorts their
    differences; from then on a median costs nothing, and adding a value next to nothing.

    Args:
        length: How many values are kept.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._values: deque[float] = deque(maxlen=length)
        self._ordered: list[float] | None = None
        self._differences: list[float] | None = None  # of neighbours in time, by size

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> None:
        """Add the value if it is finite."""
        if not isfinite(value):
            return
        value = float(value)
        values, ordered, differences = self._values, self._ordered, self._differences
        if ordered is None and differences is None:
            values.append(value)
            return
        is_full = len(values) == self._length
        if differences is not None and self._length > 1:
            if is_full:
                del differences[bisect_left(differences, values[1] - values[0])]
            if values:
                insort(differences, value - values[-1])
        if ordered is not None:
            if is_full:
                del ordered[bisect_left(ordered, values[0])]
            insort(ordered, value)
        values.append(value)

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest value; NaN while it is empty."""
        return (min(self._values), max(self._values)) if self._values else (nan, nan)

    def newest(self, count: int) -> list[float]:
        """Return the newest values, oldest of them first; fewer when the window holds fewer."""
        return list(self._values)[-count:]

    def median(self) -> float:
        """Median of the window, NaN while it is empty."""
        if self._ordered is None:
            self._ordered = sorted(self._values)
        return _middle(self._ordered)

    def spread(self) -> float:
        """Median absolute deviation, scaled to a normal's standard deviation; NaN while the window is empty."""
        middle = self.median()
        return _NORMAL * _middle_distance(self._ordered or (), middle)

    def noise(self) -> float:
        """Spread of one value around the trend, from the differences of neighbours; NaN while there are none."""
        if self._differences is None:
            self._differences = sorted([later - earlier for earlier, later in pairwise(self._values)])
        return _NORMAL / sqrt(2) * _middle_distance(self._differences, _middle(self._differences))


class StepWindow(Window):
    """The newest values, one a step: of several micro-steps their mean, or else the window would span few steps."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self._step: int | None = None
        self._of_step: list[float] = []

    def learn(self, step: int, value: float) -> None:
        """Add the value of a step, or of one more of its micro-steps, if it is finite."""
        if not isfinite(value):
            return
        if step != self._step or not self._values:
            self._step, self._of_step = step, [value]
            self.add(value)
            return
        self._of_step.append(value)
        self._values[-1] = sum(self._of_step) / len(self._of_step)
        self._ordered = self._differences = None


def _middle(ordered: Sequence[float]) -> float:
    """Median of values in ascending order, NaN of none."""
    count = len(ordered)
    if not count:
        return nan
    half = count // 2
    return ordered[half] if count % 2 else 0.5 * (ordered[half - 1] + ordered[half])


def _middle_distance(ordered: Sequence[float], center: float) -> float:
    """Median of the distances of values in ascending order from a center, NaN of none.

    The nearest so many values stand side by side: where they begin is found by halving, without sorting the distances.
    """
    count = len(ordered)
    if not count:
        return nan
    half = count // 2
    begin, last = 0, count - half - 1  # the nearest half + 1 values begin at one of these
    while begin < last:
        middle = (begin + last) // 2
        if center - ordered[middle] > ordered[middle + half + 1] - center:
            begin = middle + 1
        else:
            last = middle
    left, right = abs(ordered[begin] - center), abs(ordered[begin + half] - center)
    farthest = max(left, right)
    if count % 2:
        return farthest
    next_left, next_right = (begin + 1, begin + half) if left > right else (begin, begin + half - 1)
    return 0.5 * (farthest + max(abs(ordered[next_left] - center), abs(ordered[next_right] - center)))


class Streaks:
    """For every row of a subject, the number of observations in a row in which a condition has held.

    Rows that are not observed keep their count.
    """

    def __init__(self) -> None:
        self.lengths: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.since: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._runs = False  # whether any row has a streak

    @property
    def are_running(self) -> bool:
        """True when any row has a streak."""
        return self._runs

    def update(self, holds: Mask, present: Mask, step: int) -> NDArray[np.int64]:
        """`(rows,)` lengths after this observation; `since` holds the step at which each streak began."""
        if len(self.lengths) < len(holds):
            grown = len(holds) - len(self.lengths)
            self.lengths = np.pad(self.lengths, (0, grown))
            self.since = np.pad(self.since, (0, grown))
        if not np.count_nonzero(holds):
            if self._runs:
                self.lengths[present] = 0
                self._runs = bool(np.count_nonzero(self.lengths))
            return self.lengths
        self._runs = True
        started = holds & present & (self.lengths == 0)
        self.since[started] = step
        self.lengths[present & ~holds] = 0
        self.lengths[present & holds] += 1
        return self.lengths


#: Values with more deviations are not learned at once; the limit of `loss-spike`.
_STRANGE: Final = 8.0
#: After this many strange values in a row they are the new level (our choice: four times the wait of a rule).
_ACCEPTED: Final = 12
#: Smallest spread as a share of the usual value, and in decades on the logarithmic scale; under 5 % nothing is unusual.
_LEAST: Final = 0.02
_TINY: Final = 1e-30


@dataclass(slots=True)
class Streak:
    """The number of records in a row in which a condition has held, and the first of their steps."""

    length: int = 0
    since: int = 0

    def update(self, holds: bool, step: int) -> int:
        """Add one record and return the length after it."""
        if not holds:
            self.length = 0
            return 0
        self.since = step if self.length == 0 else self.since
        self.length += 1
        return self.length


@dataclass(slots=True)
class RobustBaseline:
    """The robust history of one scalar: its median, and the noise of one value around the trend.

    Strange values are not learned until they have come to stay, so that neither a spike nor a new plateau is taken for
    what it is not. Values that are not finite are never learned.

    Args:
        is_log: Judges in decades, for values that are positive and spread over orders of magnitude.
        warm_up: Values that are learned before any is judged.
    """

    is_log: bool = False
    warm_up: int = 10
    history: Window = field(default_factory=lambda: Window(32))
    strange: int = 0

    @property
    def value(self) -> float:
        """The median of the history, on the scale of the values; NaN while nothing is known."""
        middle = self.history.median()
        return float(10.0**middle) if self.is_log and isfinite(middle) else middle

    @property
    def spread(self) -> float:
        """The noise of one value, never below 2 % of the usual one; in decades on the logarithmic scale."""
        return self._spread(self.history.median())

    def update(self, value: float) -> float:
        """Signed deviations of the value from the history before it, NaN while warming up; learns the value."""
        if not isfinite(value):
            return nan
        scaled = log10(max(value, _TINY)) if self.is_log else value
        history = self.history
        if len(history) < self.warm_up:
            history.add(scaled)
            return nan
        middle = history.median()
        deviations = (scaled - middle) / self._spread(middle)
        self.strange = self.strange + 1 if abs(deviations) > _STRANGE else 0
        if self.strange == 0 or self.strange >= _ACCEPTED:
            history.add(scaled)
        return deviations

    def _spread(self, middle: float) -> float:
        noise = self.history.noise()
        least = _LEAST if self.is_log else max(_LEAST * abs(middle), _TINY)
        return max(noise, least) if isfinite(noise) else least


@dataclass(slots=True)
class PersistentRows:
    """For every row of a subject: how long a condition has held, and whether it was reported."""

    streaks: Streaks = field(default_factory=Streaks)
    reported: set[int] = field(default_factory=set)

    def newly(self, holds: Mask, present: Mask, step: int, *, records: int, steps: int = 0) -> list[int]:
        """Return the rows in which the condition has now held long enough and that were not returned before."""
        lengths = self.streaks.update(holds & present, present, step)
        lasting = (lengths >= records) & (step - self.streaks.since >= steps)
        rows = [int(row) for row in np.flatnonzero(lasting) if row not in self.reported]
        self.reported.update(rows)
        return rows

    def since(self, row: int) -> int:
        """Return the step at which the condition began in that row."""
        return int(self.streaks.since[row])

    def length(self, row: int) -> int:
        """Return for how many records the condition has held."""
        return int(self.streaks.lengths[row])


def trend(values: Sequence[float]) -> float:
    """Score of the Mann-Kendall test: the number of rising pairs less that of falling ones, in standard deviations.

    Args:
        values: Finite, oldest first. Twelve that only rise score 4.5, ten 4.0.

    Returns:
        Positive where the series rises; 0 for fewer than three values.

    Reference:
        Mann 1945, Econometrica 13, p. 245; Kendall 1975, Rank Correlation Methods, chapter 1.
    """
    count = len(values)
    if count < 3:
        return 0.0
    array = np.asarray(values, dtype=np.float64)
    signs = np.sign(array[None, :] - array[:, None])
    score = float(np.triu(signs, 1).sum())
    return score / float(np.sqrt(count * (count - 1) * (2 * count + 5) / 18))


def count_before_first(flags: NDArray[np.bool_]) -> int:
    """Return how many records come before the first True, in `(records,)` or `(records, sites)`."""
    places = np.flatnonzero(flags if flags.ndim == 1 else np.any(flags, axis=1))
    return int(places[0]) if len(places) else len(flags)
