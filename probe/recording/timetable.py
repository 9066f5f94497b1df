"""Which of several quantities are due at a step, asked once for all that share a schedule."""

from collections.abc import Mapping
from typing import Final

from ..configuration.schedule import Schedule

_NEVER: Final = 1 << 62


class Timetable:
    """The schedules of several quantities; an answer that was given before is the same object again.

    Args:
        schedules: By the name of the quantity.
    """

    def __init__(self, schedules: Mapping[str, Schedule]) -> None:
        names: dict[Schedule, list[str]] = {}
        for name, schedule in schedules.items():
            if schedule.is_ever_due:
                names.setdefault(schedule, []).append(name)
        self._schedules = tuple(names)
        self._names = tuple(frozenset(group) for group in names.values())
        self._answers: dict[tuple[bool, ...], frozenset[str]] = {}
        self._looks_around = any(schedule.around for schedule in self._schedules)
        self._last: frozenset[str] = frozenset()
        self._from = self._until = 0

    def due(self, step: int, anomaly: int | None = None) -> frozenset[str]:
        """The names of all that are due at this step; `anomaly` is the step of the newest one that is known."""
        if self._from <= step < self._until and not self._looks_around:
            return self._last
        asked = tuple([schedule.is_due(step, anomaly) for schedule in self._schedules])
        self._last, self._from, self._until = self._named(asked), step, self._next_change(step, asked)
        return self._last

    def _next_change(self, step: int, asked: tuple[bool, ...]) -> int:
        """A step behind this one before which the same are due."""
        until = _NEVER
        for schedule, is_due in zip(self._schedules, asked, strict=True):
            if not is_due:
                found = schedule.next_due(step)
                until = until if found is None else min(until, found)
            elif schedule.every != 1 or schedule.stop is not None:
                return step + 1
        return until

    def _named(self, asked: tuple[bool, ...]) -> frozenset[str]:
        found = self._answers.get(asked)
        if found is None:
            groups = (names for names, is_due in zip(self._names, asked, strict=True) if is_due)
            found = self._answers[asked] = frozenset[str]().union(*groups)
        return found

    @property
    def looks_around(self) -> bool:
        """Whether an anomaly makes anything due."""
        return self._looks_around

    def next_due(self, step: int) -> int | None:
        """The first step from this one on at which anything is due by its schedule; None for never."""
        known = (schedule.next_due(step) for schedule in self._schedules)
        return min((one for one in known if one is not None), default=None)

    def rests(self, names: frozenset[str], step: int, steps: int) -> bool:
        """Whether none of these names is due at any of so many steps from this one on."""
        asked = [schedule for schedule, group in zip(self._schedules, self._names, strict=True) if group & names]
        return all((due := schedule.next_due(step)) is None or due >= step + steps for schedule in asked)
