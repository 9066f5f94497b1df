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
from .current_step import CurrentStep
from .whole_tensors import WholeTensors

_NEVER: Final = 1 << 62


class Timetable:
    """The schedules of several quantities; the same answer is the same object.

    Args:
        schedules: By the name of the quantity.

    Attributes:
        until: The first step after the one asked about last at which others may be due; an anomaly may come sooner.
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
        self._from = self.until = 0

    def due(self, step: int, anomaly: int | None = None) -> frozenset[str]:
        """Return the names of all that are due at this step; `anomaly` is the step of the newest known one."""
        if self._from <= step < self.until and not self._looks_around:
            return self._last
        are_due = tuple([schedule.is_due(step, anomaly) for schedule in self._schedules])
        self._last, self._from, self.until = self._named(are_due), step, self._next_change(step, are_due)
        return self._last

    def _next_change(self, step: int, are_due: tuple[bool, ...]) -> int:
        """Return a step after this one before which the same are due."""
        until = _NEVER
        for schedule, is_due in zip(self._schedules, are_due, strict=True):
            if not is_due:
                found = schedule.next_due(step)
                until = until if found is None else min(until, found)
            elif schedule.every != 1 or schedule.stop is not None:
                return step + 1
        return until

    def _named(self, are_due: tuple[bool, ...]) -> frozenset[str]:
        found = self._answers.get(are_due)
        if found is None:
            groups = (names for names, is_due in zip(self._names, are_due, strict=True) if is_due)
            found = self._answers[are_due] = frozenset[str]().union(*groups)
        return found

    @property
    def looks_around(self) -> bool:
        """Whether an anomaly makes anything due."""
        return self._looks_around

    def is_always_due(self, step: int) -> bool:
        """Return whether anything is due at this step and at every one after it."""
        every = (schedule for schedule in self._schedules if schedule.every == 1 and schedule.stop is None)
        return any(schedule.is_due(step, None) for schedule in every)

    def next_due(self, step: int) -> int | None:
        """Return the first step from this one on at which anything is due by its schedule; None for never."""
        found = (schedule.next_due(step) for schedule in self._schedules)
        return min((due for due in found if due is not None), default=None)

    def rests(self, names: frozenset[str], step: int, steps: int) -> bool:
        """Return whether none of these names is due at any of so many steps from this one on."""
        concerned = [schedule for schedule, group in zip(self._schedules, self._names, strict=True) if group & names]
        return all((due := schedule.next_due(step)) is None or due >= step + steps for schedule in concerned)


#: Idle steps for which it pays to remove a hook and register it again: in a training that fills the caches, that costs
#: more than a few idle calls. Our choice.
_REST: Final = 8


class Agenda:
    """The schedules of one monitor.

    Attributes:
        scheduled: What was due by its schedule at the step that was asked about last.
        in_flight: What the flight recorder takes at every step.
        off: Collectors that have failed.
        is_timed: Whether the time of steps is ever recorded.
    """

    def __init__(self, config: Config) -> None:
        self.scheduled: frozenset[str] = frozenset()
        self.off: set[str] = set()
        self.follow(config)

    def follow(self, config: Config) -> None:
        """Replace the schedules by those of this configuration."""
        self._timetable = Timetable({name: config.schedule(name) for name in COLLECTORS})
        self.in_flight = frozenset(name for name in COLLECTORS if config.is_in_flight(name))
        self.is_timed = any(config.schedule(name).is_ever_due for name in ("time", "ranks"))

    def due(self, step: int, anomaly: int | None) -> frozenset[str]:
        """Return the collectors that have something to do at this step; the same ones are the same object.

        Args:
            anomaly: The step of the newest known anomaly.
        """
        self.scheduled = self._timetable.due(step, anomaly)
        every = self.scheduled | self.in_flight if self.in_flight else self.scheduled
        return every - self.off if self.off else every

    def next_due(self, step: int) -> int:
        """Return the first step from this one on at which anything may be due; an anomaly may come at any."""
        if self._timetable.looks_around or self.in_flight:
            return step
        found = self._timetable.next_due(step)
        return _NEVER if found is None else found

    def is_always_due(self, step: int) -> bool:
        """Return whether some collector has something to do at this step and at every one after it."""
        return bool(self.in_flight) or self._timetable.is_always_due(step)

    def rests(self, names: frozenset[str], step: int) -> bool:
        """Return whether none of these will have anything to do at this step and the few that come."""
        return not self.in_flight and self._timetable.rests(names, step, _REST)

    def is_long(self, step: int, until: int) -> bool:
        """Return whether removing hooks between these steps is worth it."""
        return until - step >= _REST

    def fixed_until(self) -> int:
        """Return the step before which `due` gives what it gave last, whatever happens."""
        return 0 if self._timetable.looks_around else self._timetable.until


class Subscribers:
    """Callbacks, each about some collectors, or about whether steps are idle."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[Callable[[], object], frozenset[str] | None]] = []

    def add(self, callback: Callable[[], object], of: frozenset[str] | None) -> None:
        """Call it now, and whenever something changes for one of these collectors; None for all."""
        self._callbacks.append((callback, of))
        callback()

    def notify(self, changed: frozenset[str] | None = None) -> None:
        """Call the callbacks that are about one of these collectors; None for all."""
        for callback, of in self._callbacks:
            if changed is None or of is None or not changed.isdisjoint(of):
                callback()


@runtime_checkable
class Holds(Protocol):
    """A quantity that holds much memory between steps."""

    @property
    def held_bytes(self) -> int:
        """Bytes of host memory that it holds."""

    def release(self) -> None:
        """Give back what is of no use, since it is not due at the step that begins."""


@runtime_checkable
class Prepares(Protocol):
    """A quantity that has to see the weights before they move."""

    def prepare(self, step: Step) -> None:
        """Prepare for a step at which the quantity is due, before the optimizer moves the weights."""


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
    """Return the plan of the steps at which these are due.

    Args:
        collect: The monitor's own instances.
    """
    wanted = [(name, instance, COLLECTORS[name].at) for name, instance in collect.items() if name in due]
    before = tuple((name, instance) for name, instance, moment in wanted if moment == "before_step")
    after = tuple((name, instance) for name, instance, moment in wanted if moment == "after_step")
    prepare = tuple((name, instance.prepare) for name, instance in after if isinstance(instance, Prepares))
    return Plan(before, after, prepare)


class Due:
    """What is due by schedule, for the flight recorder or the dumper; `decide` writes it into the current step.

    Args:
        time: Runs while the time of steps is ever recorded and the step is not idle.

    Attributes:
        config: The one that holds.
        agenda: Its schedules.
        plan: The collectors of the step.
        wakes_at: While steps are idle, the first at which something may be due.
        settled_until: The step before which the same is due, so that nobody has to decide; 0 where that is not known.
    """

    def __init__(self, config: Config, current: CurrentStep, whole: WholeTensors, time: StepTime) -> None:
        self._current, self._whole, self._time = current, whole, time
        self.config, self.agenda = config, Agenda(config)
        current.bins = config.histograms.of()
        self.plan: Plan = plan_of(frozenset(), {})
        self.wakes_at = self.settled_until = 0
        self._is_logged_to = self._is_followed = False
        self._subscribers = Subscribers()
        self._plans: dict[frozenset[str], Plan] = {}
        self._collect: dict[str, Collect] = {n: c.build() for n, c in COLLECTORS.items() if c.build}
        self._holders = {name: collect for name, collect in self._collect.items() if isinstance(collect, Holds)}

    def decide(self) -> None:
        """Write what is due into the current step, and notify the subscribers of changes."""
        current = self._current
        flight_records = self._whole.flight_records
        due = self.due_at(current.step, None if flight_records is None else flight_records.alarm(current.step))
        has_dumps = self._whole.may_be_wanted
        is_idle = not due and current.has_recorded and not (has_dumps or self._is_followed or self.config.nan_trace)
        if is_idle:
            self.wakes_at = self.next_due(current.step + 1)
        is_other = current.is_away or is_idle is not current.is_idle or has_dumps
        if is_other or due is not current.due:
            current.is_idle = is_idle
            changed = None if is_other else due ^ current.due
            self._expect(due)
            self._subscribers.notify(changed)
        self.settled_until = self.fixed_until() if due and not has_dumps else 0

    def due_at(self, step: int, anomaly: int | None) -> frozenset[str]:
        """Return the collectors that have something to do at this step; the same ones are the same object."""
        return self.agenda.due(step, anomaly)

    @property
    def held_bytes(self) -> int:
        """Bytes of host memory that collectors and the flight recorder hold."""
        flight = self._whole.flight_records
        tensors = None if flight is None else flight.tensors
        held = sum(collect.held_bytes for collect in self._holders.values())
        return held + (0 if tensors is None else tensors.held_bytes)

    def next_due(self, step: int) -> int:
        """Return the first step from this one on at which anything may be due."""
        return self.agenda.next_due(step)

    def fixed_until(self) -> int:
        """Return the step before which `due_at` gives what it gave last, whatever happens."""
        return self.agenda.fixed_until()

    def _expect(self, due: frozenset[str]) -> None:
        """Prepare the current step for these collectors and their hooks."""
        plan = self._plans.get(due)
        if plan is None:
            plan = self._plans[due] = plan_of(due, self._collect)
        self.plan = plan
        for name, holder in self._holders.items():
            if name not in due:
                holder.release()
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
        self._time.pause(not self.agenda.is_timed or current.is_idle)

    # What changes it --------------------------------------------------------------------------------------------

    def follow(self, config: Config) -> None:
        """Use the schedules of this configuration from the step that begins next."""
        if self._whole.flight_records is not None:
            self._whole.flight_records.alarm(0)  # an anomaly of before is none that the new schedules record around
        self.config, self._current.bins = config, config.histograms.of()
        self.settled_until = 0
        self.agenda.follow(config)
        if not self._current.is_open and self._current.has_recorded:
            self.decide()

    def watch_anomalies(self, flight_records: FlightRecords) -> None:
        """Set the flight recorder's buffer, which reports anomalies, and holds tensors if it can."""
        self._whole.flight_records = flight_records
        self.decide()

    def dump_to(self, dumper: Dumper) -> None:
        """Set where whole tensors go from now on."""
        self._whole.dumper = dumper
        self.decide()

    def look_away(self) -> None:
        """Have hooks record nothing until the step is over."""
        current = self._current
        current.is_looking = current.sees_forward = current.sees_backward = False
        current.sees_inputs = current.sees_input_grads = False
        current.is_away = True
        current.dumps = frozenset()

    def look_again(self) -> None:
        """Have hooks record what is due in the step in progress."""
        self.decide()

    def follow_closely(self, is_followed: bool) -> None:
        """Set whether no step may be idle from the next one on, since somebody counts them."""
        self._is_followed, self.wakes_at = is_followed, 0 if is_followed else self.wakes_at

    def mark_steps(self) -> None:
        """Have the beginnings of steps be known from now on, idle or not."""
        if not self._is_logged_to:
            self._is_logged_to = True
            self._subscribers.notify()

    # Who depends on it ------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[], object], *, of: frozenset[str] | None = None) -> None:
        """Call it now, and when other things are due than before, before the step begins.

        Args:
            of: The collectors that it is about; of none, it is about whether steps are idle.
        """
        self._subscribers.add(callback, of)

    def rests(self, names: frozenset[str]) -> bool:
        """Return whether none of these collectors will have anything to do in this step and the few that come."""
        return self._whole.dumper is None and self.agenda.rests(names, self._current.step)

    @property
    def is_idle_for_long(self) -> bool:
        """Whether this step and the few that come are idle, and nobody needs to know where they begin."""
        current = self._current
        return current.is_idle and not self._is_logged_to and self.agenda.is_long(current.step, self.wakes_at)
