"""When: at which steps a quantity is due; what is not due is not computed."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps at which something is due: any that one of the rules names, between `start` and `stop`.

    Args:
        every: Due at steps start, start + every, ...; 0 means never by this rule.
        first: Due at each of the first so many steps from `start` on.
        windows: Pairs (first, last), both included, in which every step is due.
        per_decade: Due so many times between a step and the tenfold of it, evenly on a logarithmic scale; counted from
            `start`. 0 means never by this rule.
        start: Nothing is due before this step.
        stop: Nothing is due from this step on; None for no end.
        around: Due at each of so many steps behind an anomaly, whatever `start` and `stop` say.
    """

    every: int = 1
    first: int = 0
    windows: tuple[tuple[int, int], ...] = ()
    per_decade: int = 0
    start: int = 0
    stop: int | None = None
    around: int = 0

    def is_due(self, step: int, anomaly: int | None = None) -> bool:
        """Whether the quantity is recorded at this step; `anomaly` is the step of the newest one that is known."""
        if anomaly is not None and 0 < step - anomaly <= self.around:
            return True
        since = step - self.start
        if since < 0 or (self.stop is not None and step >= self.stop):
            return False
        if self.every and since % self.every == 0:
            return True
        if since < self.first or (self.windows and any(first <= step <= last for first, last in self.windows)):
            return True
        return bool(self.per_decade) and self._is_on_the_logarithmic_grid(since)

    def _is_on_the_logarithmic_grid(self, since: int) -> bool:
        """Whether `round(10 ** (k / per_decade))` is this step for some k from 0 on; 0 is always on it."""
        if since == 0:
            return True
        nearest = round(math.log10(since) * self.per_decade)
        return any(round(10.0 ** (k / self.per_decade)) == since for k in (nearest - 1, nearest, nearest + 1) if k >= 0)

    def next_due(self, step: int) -> int | None:
        """The first step from this one on that is due by the schedule, whatever anomalies there are; None for never."""
        first = max(step, self.start)
        found: list[int] = []
        if self.every:
            found.append(self.start + -(-(first - self.start) // self.every) * self.every)
        if first - self.start < self.first:
            found.append(first)
        found += [max(first, begin) for begin, last in self.windows if last >= first]
        if self.per_decade:
            found.append(self.start + self._next_on_the_grid(first - self.start))
        nearest = min(found, default=None)
        return None if nearest is None or (self.stop is not None and nearest >= self.stop) else nearest

    def _next_on_the_grid(self, since: int) -> int:
        if since == 0:
            return 0
        k = max(math.floor(math.log10(since) * self.per_decade) - 1, 0)
        while (found := int(round(10.0 ** (k / self.per_decade), 0))) < since:
            k += 1
        return found

    @property
    def is_ever_due(self) -> bool:
        """Whether there is any step at which it is due."""
        is_open = self.stop is None or self.stop > self.start
        rules = self.every or self.first or self.windows or self.per_decade
        return bool(self.around or (is_open and rules))


#: Never due.
NEVER = Schedule(every=0)
