"""Decides what is due in the step in progress, and tells those whose hooks follow it."""

from collections.abc import Callable

from ..collectors.collector import COLLECTORS, Collect
from ..configuration.config import Config
from ..dump import Dumper
from ..flight.keeper import FlightKeeper
from ..quantities.step_time import StepTime
from .agenda import Agenda
from .current import CurrentStep
from .followers import Followers
from .plan import Plan, plan_of
from .whole_tensors import WholeTensors


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

    def keep(self, keeper: FlightKeeper) -> None:
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
