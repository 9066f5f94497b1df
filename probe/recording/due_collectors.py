"""Which collectors have something to do at a step, and which statistics, histograms and hooks that takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from ..collectors.collector import COLLECTORS, Collect, Step
from ..configuration.cadence import Schedule
from ..configuration.config import Config
from ..dump import Dumper
from ..flight_recorder import FlightRecords
from ..quantities.step_clock import StepTime
from .current import CurrentStep
from .whole_tensors import WholeTensors

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


#: Steps without a hook that are worth taking it off: where a training fills the caches, both ways cost more than a few
#: idle calls. Our choice.
_REST: Final = 8


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


class Followers:
    """Functions, each about some collectors, or about whether steps are idle."""

    def __init__(self) -> None:
        self._told: list[tuple[Callable[[], object], frozenset[str] | None]] = []

    def add(self, told: Callable[[], object], of: frozenset[str] | None) -> None:
        """Nothing; it is called now, and whenever something changes for one of these collectors; None for all."""
        self._told.append((told, of))
        told()

    def tell(self, changed: frozenset[str] | None = None) -> None:
        """Nothing; those who are about one of these collectors have been called; None for everybody."""
        for told, of in self._told:
            if changed is None or of is None or not changed.isdisjoint(of):
                told()


@runtime_checkable
class Prepares(Protocol):
    """A quantity that has to see the weights before they move."""

    def prepare(self, step: Step) -> None:
        """Called before the optimizer moves the weights of a step at which the quantity is due."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The collectors of steps that are due, by name, in the order of the catalogue.

    Args:
        prepare: What those of `after` do before the weights move.
    """

    before: tuple[tuple[str, Collect], ...]
    after: tuple[tuple[str, Collect], ...]
    prepare: tuple[tuple[str, Callable[[Step], None]], ...]


def plan_of(due: frozenset[str], collect: Mapping[str, Collect]) -> Plan:
    """The plan of the steps at which these are due.

    Args:
        collect: The monitor's own instances.
    """
    asked = [(name, one, COLLECTORS[name].at) for name, one in collect.items() if name in due]
    before = tuple((name, one) for name, one, moment in asked if moment == "before_step")
    after = tuple((name, one) for name, one, moment in asked if moment == "after_step")
    return Plan(before, after, tuple((name, one.prepare) for name, one in after if isinstance(one, Prepares)))


class Due:
    """What is due by schedule, for the flight recorder or the dumper; `decide` writes it into the current step.

    Args:
        time: Runs while it is ever asked for and the step is not idle.

    Attributes:
        config: The one that holds.
        agenda: Its schedules.
        plan: The collectors that are asked in the step.
        enter: `enter(phase)` marks where time goes, if that is asked for.
        wakes_at: While steps are idle, the first at which something may be due.
    """

    def __init__(self, config: Config, current: CurrentStep, whole: WholeTensors, time: StepTime) -> None:
        self._current, self._whole, self._time = current, whole, time
        self.config, self.agenda = config, Agenda(config)
        current.bins = config.histograms.of()
        self.plan: Plan = plan_of(frozenset(), {})
        self.enter: Callable[[int], object] = time.enter
        self.wakes_at = 0
        self._is_logged_to = self._is_followed = False
        self._followers = Followers()
        self._plans: dict[frozenset[str], Plan] = {}
        self._collect: dict[str, Collect] = {n: c.build() for n, c in COLLECTORS.items() if c.build}

    def decide(self) -> None:
        """Nothing; the current step tells what is due in it, and so do those who follow."""
        current = self._current
        keeper = self._whole.keeper
        due = self.agenda.due(current.step, None if keeper is None else keeper.alarm(current.step))
        has_dumps = self._whole.may_be_wanted
        is_idle = not due and current.has_recorded and not (has_dumps or self._is_followed or self.config.nan_trace)
        if is_idle:
            self.wakes_at = self.agenda.next_due(current.step + 1)
        is_other = current.is_away or is_idle is not current.is_idle or has_dumps
        if is_other or due is not current.due:
            current.is_idle = is_idle
            changed = None if is_other else due ^ current.due
            self.expect(due)
            self._followers.tell(changed)

    def expect(self, due: frozenset[str]) -> None:
        """Nothing; these collectors, and the hooks of theirs, have something to do in the current step."""
        plan = self._plans.get(due)
        if plan is None:
            plan = self._plans[due] = plan_of(due, self._collect)
        self.plan = plan
        current = self._current
        current.due = due
        current.is_away = False
        current.sees_forward, current.sees_backward = "activation" in due, "activation_grad" in due
        current.sees_inputs, current.sees_input_grads = "input" in due, "input_grad" in due
        current.sees_communication = "communication" in due
        current.sees_unreduced = "gradient/unreduced" in due
        current.wants_histogram = frozenset(self.config.histograms.subjects if "histogram" in due else ())
        current.dumps = self._whole.decide(current.step)
        current.is_looking = current.sees_forward or current.sees_backward or bool(current.dumps)
        is_timed = self.agenda.is_timed and not current.is_idle
        self._time.pause(not is_timed)
        self.enter = self._time.enter if is_timed else bool  # which does nothing

    # Who changes it ---------------------------------------------------------------------------------------------

    def follow(self, config: Config) -> None:
        """Nothing; the schedules of this configuration hold from the step that begins next."""
        self.config, self._current.bins = config, config.histograms.of()
        self.agenda.follow(config)
        if not self._current.is_open and self._current.has_recorded:
            self.decide()

    def keep(self, keeper: FlightRecords) -> None:
        """Nothing; it says from now on what anomaly there was, and holds tensors if it can."""
        self._whole.keeper = keeper
        self.decide()

    def dump_to(self, dumper: Dumper) -> None:
        """Nothing; whole tensors go there from now on."""
        self._whole.dumper = dumper
        self.decide()

    def look_away(self) -> None:
        """Nothing; hooks have nothing to record until the step is over."""
        current = self._current
        current.is_looking = current.sees_forward = current.sees_backward = False
        current.sees_inputs = current.sees_input_grads = False
        current.is_away = True
        current.dumps = frozenset()

    def look_again(self) -> None:
        """Nothing; hooks record what is due in the step in progress."""
        self.decide()

    def follow_closely(self, is_followed: bool) -> None:
        """Nothing; no step is idle from the next one on, or steps may be idle again."""
        self._is_followed, self.wakes_at = is_followed, 0 if is_followed else self.wakes_at

    def mark_steps(self) -> None:
        """Nothing; from now on it must be known where a step begins, idle or not."""
        if not self._is_logged_to:
            self._is_logged_to = True
            self._followers.tell()

    # Who follows it ---------------------------------------------------------------------------------------------

    def tell(self, told: Callable[[], object], *, of: frozenset[str] | None = None) -> None:
        """Nothing; it is called now, and when other things are due than before, before the step begins.

        Args:
            of: The collectors that it is about; of none, it is about whether steps are idle.
        """
        self._followers.add(told, of)

    def rests(self, names: frozenset[str]) -> bool:
        """Whether none of these collectors will have anything to do in this step and the few that come."""
        return self._whole.dumper is None and self.agenda.rests(names, self._current.step)

    @property
    def is_idle_for_long(self) -> bool:
        """Whether this step and the few that come are idle, and nobody needs to know where they begin."""
        current = self._current
        return current.is_idle and not self._is_logged_to and self.agenda.is_long(current.step, self.wakes_at)
