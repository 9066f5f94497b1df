"""When one subject is due, as a person writes it: a number, true, false, or the fields of a schedule."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from .schedule import Schedule
from .strict import Contradictions, Strict


def _window(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"must be a pair [first, last] of steps, got {value!r}; write windows: [[100, 110]]")
    return value


class Cadence(Strict):
    """When one subject is due; the fields are those of `Schedule`. Without any it is due at every step.

    Args:
        every: 0 is never by this rule; alone it is the same as false.
        around: Steps behind an anomaly; None is what the configuration says of all subjects.
    """

    every: int | None = Field(default=None, ge=0)
    first: int = Field(default=0, ge=0)
    windows: tuple[Annotated[tuple[int, int], BeforeValidator(_window)], ...] = ()
    per_decade: int = Field(default=0, ge=0, le=1000)
    start: int = Field(default=0, ge=0)
    stop: int | None = Field(default=None, ge=1)
    around: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _runs_forward(self) -> Self:
        found = [
            f"window [{first}, {last}] must run from a step >= 0 to a later one; swap its ends"
            for first, last in self.windows
            if not 0 <= first <= last
        ]
        if self.stop is not None and self.stop <= self.start:
            found.append(f"stop {self.stop} must be a later step than start {self.start}")
        if found:
            raise Contradictions(found)
        return self

    def schedule(self) -> Schedule:
        """The same as a `Schedule`."""
        other = self.first or self.windows or self.per_decade or self.around
        every = self.every if self.every is not None else int(not other)
        return Schedule(every, self.first, self.windows, self.per_decade, self.start, self.stop, self.around or 0)


def as_cadence(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    """A number as the cadence of so many steps, true and false as every step and none."""
    if isinstance(value, bool):
        return {"every": int(value)}
    if not isinstance(value, int | Mapping | Cadence):
        raise ValueError(  # noqa: TRY004  pydantic gathers these and no other
            f"must be a whole number of steps, true, false, or the keys of a cadence, got {value!r}; there are "
            f"{', '.join(Cadence.model_fields)}"
        )
    return {"every": value} if isinstance(value, int) else value
