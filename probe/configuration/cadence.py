"""When one subject is due, as a person writes it: a number, true, false, or the fields of a schedule."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from .scalars import Whole, plain
from .schedule import Schedule
from .strict import Contradiction, Strict


def _window(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise PydanticCustomError("window", "no pair of steps")
    return value


def _runs_forward(window: tuple[int, int]) -> tuple[int, int]:
    first, last = window
    if not 0 <= first <= last:
        raise ValueError(f"must run from a step >= 0 to a later one, got [{first}, {last}]; swap its ends")
    return window


class Cadence(Strict):
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
        """An end before the start."""
        if self.stop is not None and self.stop <= self.start:
            yield Contradiction(("start", "stop"), f"stop {self.stop} must be a later step than start {self.start}")

    def schedule(self) -> Schedule:
        """The same as a `Schedule`."""
        other = self.first or self.windows or self.per_decade or self.around
        every = self.every if self.every is not None else int(not other)
        return Schedule(every, self.first, self.windows, self.per_decade, self.start, self.stop, self.around or 0)


def as_cadence(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    """A number as the cadence of so many steps, true and false as every step and none."""
    value = plain(value)
    if not isinstance(value, int | Mapping | Cadence):
        raise PydanticCustomError("cadence", "no cadence")
    return {"every": int(value)} if isinstance(value, int) else value
