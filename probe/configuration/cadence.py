"""When a subject is due: the schedule that every step checks, and the cadence as a user writes it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from .config_fields import Contradiction, Section, Whole, plain


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
        """Return whether the step is recorded; `anomaly` is the step of the newest known one."""
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
        """Return whether `round(10 ** (k / per_decade))` is this step for some k from 0 on; 0 is always on it."""
        if since == 0:
            return True
        nearest = round(math.log10(since) * self.per_decade)
        return any(round(10.0 ** (k / self.per_decade)) == since for k in (nearest - 1, nearest, nearest + 1) if k >= 0)

    def next_due(self, step: int) -> int | None:
        """Return the first step from this one on that is due by the schedule, whatever anomalies there are; None for
        never."""
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


def _window(value: object) -> object:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise PydanticCustomError("window", "no pair of steps")
    return value


def _runs_forward(window: tuple[int, int]) -> tuple[int, int]:
    first, last = window
    if not 0 <= first <= last:
        raise ValueError(f"must run from a step >= 0 to a later one, got [{first}, {last}]; swap its ends")
    return window


class Cadence(Section):
    """When one subject is due; the fields are those of `Schedule`. Without any it is due at every step.

    Args:
        every: 0 is never by this rule; alone it is the same as false.
        around: Steps behind an anomaly; None is what the configuration says of all subjects.
    """

    every: Whole | None = Field(default=None, ge=0)
    first: Whole = Field(default=0, ge=0)
    windows: tuple[Annotated[tuple[Whole, Whole], BeforeValidator(_window), AfterValidator(_runs_forward)], ...] = ()
    per_decade: Whole = Field(default=0, ge=0, le=1000)
    start: Whole = Field(default=0, ge=0)
    stop: Whole | None = Field(default=None, ge=1)
    around: Whole | None = Field(default=None, ge=0)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a contradiction where the end lies before the start."""
        if self.stop is not None and self.stop <= self.start:
            yield Contradiction(("start", "stop"), f"stop {self.stop} must be a later step than start {self.start}")

    def schedule(self) -> Schedule:
        """Return the cadence as a `Schedule`."""
        other = self.first or self.windows or self.per_decade or self.around
        every = self.every if self.every is not None else int(not other)
        return Schedule(
            every=every,
            first=self.first,
            windows=self.windows,
            per_decade=self.per_decade,
            start=self.start,
            stop=self.stop,
            around=self.around or 0,
        )


def as_cadence(value: object) -> object:
    """Convert a number to the cadence of that many steps, true to every step, false to none."""
    value = plain(value)
    if not isinstance(value, int | Mapping | Cadence):
        raise PydanticCustomError("cadence", "no cadence")
    return {"every": int(value)} if isinstance(value, int) else value
