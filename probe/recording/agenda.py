"""What is due in a step, by schedule or for the flight recorder, and when anything is due again."""

from typing import Final

from ..collectors.collector import COLLECTORS
from ..configuration.config import Config
from .timetable import Timetable

#: Steps without a hook that are worth taking it off: where a training fills the caches, both ways cost more than a few
#: idle calls. Our choice.
_REST: Final = 8
_NEVER: Final = 1 << 62


class Agenda:
    """The schedules of one monitor.

    Attributes:
        scheduled: What was due by its schedule at the step that was asked about last.
        in_flight: What the flight recorder takes at every step.
        off: Collectors that have failed.
        is_timed: Whether it is ever told what steps spend their time on.
    """

    def __init__(self, config: Config) -> None:
        self.scheduled: frozenset[str] = frozenset()
        self.off: set[str] = set()
        self.follow(config)

    def follow(self, config: Config) -> None:
        """Nothing; the schedules of this configuration hold."""
        self._timetable = Timetable({name: config.schedule(name) for name in COLLECTORS})
        self.in_flight = frozenset(name for name in COLLECTORS if config.is_in_flight(name))
        self.is_timed = any(config.schedule(name).is_ever_due for name in ("time", "ranks"))

    def due(self, step: int, anomaly: int | None) -> frozenset[str]:
        """The collectors that have something to do at this step; the same object where the same ones have.

        Args:
            anomaly: The step of the newest one that is known.
        """
        self.scheduled = self._timetable.due(step, anomaly)
        every = self.scheduled | self.in_flight if self.in_flight else self.scheduled
        return every - self.off if self.off else every

    def next_due(self, step: int) -> int:
        """The first step from this one on at which anything may be due; an anomaly may come at any."""
        if self._timetable.looks_around or self.in_flight:
            return step
        found = self._timetable.next_due(step)
        return _NEVER if found is None else found

    def rests(self, names: frozenset[str], step: int) -> bool:
        """Whether none of these will have anything to do at this step and the few that come."""
        return not self.in_flight and self._timetable.rests(names, step, _REST)

    def is_long(self, step: int, until: int) -> bool:
        """Whether it is worth taking hooks off between these steps."""
        return until - step >= _REST
