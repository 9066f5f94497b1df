"""The step in progress: what is due, what has been seen, and the record that it becomes.

An adapter tells the recorder what happens, in the framework's own order:

    forward_begins -> (rows filled by hooks) -> backward_begins -> (rows) -> before_step -> after_step

A forward that begins after a backward without a step between them opens the next micro-step: the rows so far become a
record of their own. After a step the record waits until the next thing happens, so that scalars logged behind
`optimizer.step()` still belong to it.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ParamSpec

from numpy.typing import NDArray

from ...storage.records import Block, Event, Histogram, Json, StepRecord
from ..collectors.collector import COLLECTORS, Collect, Step, View
from ..configuration.config import Config
from ..configuration.reactions import Refusal, refusal_of
from ..dump import Dumper
from ..flight.keeper import FlightKeeper
from ..flight.split import splitter
from ..kernels import More
from ..outbox.late import sum_of
from ..outbox.outbox import Outbox
from ..outbox.promises import LateScalar
from ..quantities.noise_scale import MicroBatches
from ..quantities.step_time import BACKWARD, BETWEEN, DATA, FORWARD, MONITOR, OPTIMIZER, StepTime
from ..resume import ResumePoint
from .agenda import Agenda
from .block import TableRows
from .draft import Draft
from .first_step import empty_step, initial_weights
from .followers import Followers
from .hook_rows import HookRows
from .plan import Plan, plan_of
from .whole_tensors import WholeTensors

_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")

#: How often steps at which nothing is due are told of: as often as a person's wishes are looked for. Our choice.
QUIET_S = 0.2


class Recorder:
    """Collects one rank's observations step by step; `emit` gets each finished record.

    Attributes that hooks read: `stamp` changes with every micro-step; `sees_forward` and `sees_backward` say whether
    the hooks' quantities are due; `wants_histogram` and `dumps` name the hooks' subjects whose histogram, and whose
    whole tensors, are due; `is_looking` says whether any of this is so; `root` is the value that the last backward pass
    started from. `measure(address, size, code, out_address)` fills a row of statistics. `has_bad_gradient` says, before
    an update, that a gradient holds NaN or infinity, where gradients are due; `refusal` is what is done about it.

    At a step with `is_idle` nothing is due: hooks, facts and marks of time do nothing, and such steps are only counted
    and told of a few times a second.
    """

    def __init__(
        self, config: Config, emit: Callable[[StepRecord], None], *, clock: Callable[[], float] = time.time
    ) -> None:
        self.config, self._clock = config, clock
        self.outbox = Outbox(emit, self.fail)
        self.step = self.micro_step = self.stamp = 0
        self.is_open = self.saw_backward = False
        self.is_away = True
        self._due: frozenset[str] = frozenset()
        self.root: float | LateScalar | None = None
        self.batch_checksum = math.nan
        self.resume_points: tuple[ResumePoint, ...] = ()
        self.note_resume_point: Callable[[str], None] = lambda _: None  # where no facts are told
        self.is_idle = self._is_logged_to = self._is_followed = False
        self._wakes_at, self._tells_at, self._is_untold = 0, 0.0, False
        self.more = More.of(config.statistics)
        self.measure = self.more.kernel()
        self._hook_rows = HookRows(self.more)
        self.rows_of, self.open_rows, self.columns = self._hook_rows.of, self._hook_rows.open, self._hook_rows.columns
        self.activations, self.activation_grads = self.rows_of("activation"), self.rows_of("activation_grad")
        self._whole = WholeTensors(self.outbox)
        self.keeper: FlightKeeper | None = None
        self.dumps: frozenset[str] = frozenset()
        self.loss_scale: float | LateScalar | None = None
        self.clip: tuple[float | LateScalar, float] | None = None
        self.micro_batches = MicroBatches()
        self.time = StepTime()
        self._enter: Callable[[int], object] = self.time.enter
        self._records = 0
        self.expects_activations = True
        self.refusal: Refusal = refusal_of(config.on_finding)
        self.has_bad_gradient = False
        self._followers = Followers()
        self._plans: dict[frozenset[str], Plan] = {}
        self.bins, self._agenda = config.histograms.of(), Agenda(config)
        self._collect: dict[str, Collect] = {n: c.build() for n, c in COLLECTORS.items() if c.build}
        self._tables = TableRows()
        self._seen: Step | None = None
        self._draft = Draft(self.open_rows, self.outbox)
        self._events: list[Event] = []
        self._loss: float | LateScalar | None = None
        self._pending: StepRecord | None = None
        self._ended = time.perf_counter()
        self._decide_what_is_due()

    # What the adapter tells -------------------------------------------------------------------------------------

    def forward_begins(self) -> None:
        """A training forward of the whole model begins."""
        if self._pending is not None or self.outbox.waiting:
            self.flush()
        if self.saw_backward and self.is_open:
            self._finish_micro_step()
        self.is_open = True
        self._enter(FORWARD)

    def backward_begins(self, loss: float | LateScalar | None) -> None:
        """A backward pass starts from a scalar of this value, known or late, or from something that is none."""
        if self._pending is not None or self.outbox.waiting:
            self.flush()
        self.saw_backward = self.is_open = True
        self.root = loss
        if loss is not None:
            self._loss = loss if self._loss is None else sum_of(self._loss, loss)
        self._enter(BACKWARD)

    def backward_ends(self) -> None:
        """The backward pass is over; what it computed may be clipped or unscaled in place from here on."""
        if self.outbox.owed is not None:
            self.outbox.launch()
        if self.saw_backward:
            self._enter(BETWEEN)

    def before_step(self, view: View) -> None:
        """The optimizer is about to move the weights."""
        self._enter(MONITOR)
        if self._pending is not None or self.outbox.waiting:
            self.flush()
        self.is_open = True
        if not self._records:
            self._events += initial_weights(self._step_of(view), self.micro_step, self.outbox)
        self.has_bad_gradient = False
        if self._plan.before or self._plan.after:
            step = self._seen = self._step_of(view)
            self._draft.ask(self._plan.before, step, self.fail)
            self.has_bad_gradient = bool(self.refusal) and self._is_bad(step.gradient_norm)
            for name, prepare in self._plan.prepare:
                try:
                    prepare(step)
                except Exception as error:  # noqa: BLE001  as in `Draft.ask`
                    self.fail(name, error)
        if self.dumps:
            for subject in self.dumps & {"weight", "gradient"}:
                self._whole.take_parameters(view, subject, (self.step, self.micro_step))
        if self.outbox.owed is not None:
            self.outbox.launch()
        self._enter(OPTIMIZER)

    def after_step(self, view: View, *, skipped: bool = False) -> None:
        """The step is over; `skipped` when overflow kept the optimizer from moving the weights."""
        was_idle = self.is_idle
        if was_idle:
            self.flush()
            if not skipped and self._passes():
                return
        self._enter(MONITOR)
        if not was_idle:
            self.time.ended += 1
            self._draft.ask(self._plan.after, self._step_after(view), self.fail)
        self._ended = time.perf_counter()
        blocks = self._hook_rows.take(self.outbox.owe_block)
        self._tables.take(blocks, self._draft.rows, view, self.columns)
        if not self._records:
            is_expected = self.sees_forward and self.expects_activations
            if is_expected and all(block.layout.subject != "activation" for block in blocks):
                self.event("monitor_fault", collector="activation", error=empty_step(self.config.record))
        self._pending = self._record(tuple(blocks), skipped=skipped)
        self._records, self._is_untold = self._records + 1, False
        if self.micro_batches.squares or self.micro_batches.late:
            self.micro_batches = MicroBatches()
        self._next_step()
        self._decide_what_is_due()
        self._enter(DATA)

    def follow(self, config: Config) -> None:
        """Nothing; the schedules of this configuration hold from the step that begins next."""
        self.config, self.bins = config, config.histograms.of()
        self._agenda.follow(config)
        if not self.is_open and self._records:
            self._decide_what_is_due()

    def rests(self, names: frozenset[str]) -> bool:
        """Whether none of these collectors will have anything to do in this step and the few that come."""
        return self._whole.dumper is None and self._agenda.rests(names, self.step)

    @property
    def is_idle_for_long(self) -> bool:
        """Whether this step and the few that come are idle, and nobody needs to know where they begin."""
        return self.is_idle and not self._is_logged_to and self._agenda.is_long(self.step, self._wakes_at)

    def tell(self, told: Callable[[], object], *, of: frozenset[str] | None = None) -> None:
        """Nothing; it is called now, and when other things are due than before, before the step begins.

        Args:
            of: The collectors that it is about; of none, it is about whether steps are idle.
        """
        self._followers.add(told, of)

    def timed(self, work: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        """The work itself; a recorder that has to know its cost times it."""
        return work

    def dump(self, subject: str, site: str, call: int, array: NDArray[Any]) -> None:
        """Nothing; a copy of the tensor goes to the dumper or is held for it, if the site is wanted."""
        self._whole.take(subject, (site, call), (self.step, self.micro_step), array)

    def dump_later(self, subject: str, site: str, call: int, tensor: Any) -> None:  # Any: the framework's, on a device
        """Nothing; the same of a tensor on a device as it is now, when it has travelled."""
        self._whole.take_later(subject, (site, call), (self.step, self.micro_step), tensor)

    def look_away(self) -> None:
        """Nothing; hooks have nothing to record until the step is over."""
        self.is_looking = self.sees_forward = self.sees_backward = self.sees_inputs = self.sees_input_grads = False
        self.is_away = True
        self.dumps = frozenset()

    def look_again(self) -> None:
        """Nothing; hooks record what is due in the step in progress."""
        self._decide_what_is_due()

    # What the monitor tells -------------------------------------------------------------------------------------

    def log_of_user(self, scalars: Mapping[str, float]) -> None:
        """Scalars that the user gives: from now on it must be known where a step begins."""
        if not self._is_logged_to:
            self._is_logged_to = True
            self._followers.tell()
        self.log(scalars)

    def log(self, scalars: Mapping[str, float]) -> None:
        """Scalars of the step in progress, or of the one that has just ended when none is."""
        self._tell_of_the_last_step()
        if self._pending is None:
            self._draft.scalars.update(scalars)
        else:
            self._pending = replace(self._pending, scalars={**self._pending.scalars, **scalars})

    def event(self, kind: str, site: str = "", **data: Json) -> None:
        """Something exact that happened in the step in progress, or in the one that has just ended."""
        self._tell_of_the_last_step()
        if self._pending is None:
            self._events.append(Event(kind, self.step, site, self.micro_step, data))
        else:
            event = Event(kind, self._pending.step, site, self._pending.micro_step, data)
            self._pending = replace(self._pending, events=(*self._pending.events, event))

    def flush(self, *, wait: bool = False) -> None:
        """Hands the waiting record over, and those that a device owed numbers; the device may be waited for."""
        if wait:
            self._tell_of_the_last_step()
        if self._pending is not None:
            record, self._pending = self._pending, None
            self.outbox.send(record)
        if self.outbox.waiting:
            self.outbox.drain(wait=wait)

    def held(self) -> StepRecord | None:
        """What is known of the newest step, if no record of it has left; any thread may ask."""
        record = self._pending
        if record is None:
            return StepRecord(self.step - 1, self._clock()) if self._is_untold and not self.is_open else None
        known = self.outbox.known(record)
        return known if self._pending is record else None

    def finish(self) -> tuple[Event, ...]:
        """What happened behind the last step and is part of no record; all else is handed over, whole steps or not.

        A device is waited for.
        """
        self.flush(wait=True)
        if self._whole.dumper is not None:
            self.outbox.wait()
            self._events += self._whole.dumper.close(self.step)
        blocks = tuple(self._hook_rows.take(self.outbox.owe_block))  # collectives behind the last step are among them
        is_left = bool(self.is_open or blocks or self._draft.scalars or self.outbox.owed)
        if is_left:
            self.outbox.send(self._record(blocks))
            self.outbox.drain(wait=True)
        self.is_open = False
        last = max(self.step - 1, 0)
        return () if is_left else tuple([replace(one, step=min(one.step, last)) for one in self._events])

    def follow_closely(self, is_followed: bool) -> None:
        """Nothing; no step is idle from the next one on, or steps may be idle again."""
        self._is_followed, self._wakes_at = is_followed, 0 if is_followed else self._wakes_at

    def is_due(self, name: str) -> bool:
        """Whether the collector of this name has something to do in the step in progress."""
        return name in self._due

    @property
    def histograms(self) -> list[Histogram]:
        """Those of the record in progress, to be added to."""
        return self._draft.histograms

    @property
    def takes_promises(self) -> bool:
        """Whether tensors on a device are only asked for."""
        return self.outbox.takes_promises

    @property
    def has_recorded(self) -> bool:
        """Whether any step has been closed."""
        return self._records > 0

    def fail(self, name: str, error: Exception) -> None:
        """The collector is switched off; said once in the log and once in the run."""
        if name in self._agenda.off:
            return
        self._agenda.off.add(name)
        _log.error("collector %r failed at step %d and is switched off: %s", name, self.step, error, exc_info=error)
        self.event("monitor_fault", collector=name, error=f"{type(error).__name__}: {error}")
        self._decide_what_is_due()

    # Inside -----------------------------------------------------------------------------------------------------

    def _passes(self) -> bool:
        """Whether the idle step, which is over, needs no record; where it does not, the next step has begun."""
        self._ended = time.perf_counter()
        if self._draft.scalars or self._events or self._ended >= self._tells_at or not self.is_idle:
            self._tells_at = self._ended + QUIET_S
            return False
        self._is_untold = True
        self._next_step()
        if self.step >= self._wakes_at:
            self._decide_what_is_due()
        return True

    def _next_step(self) -> None:
        self.step, self.micro_step, self.stamp = self.step + 1, 0, self.stamp + 1
        self.is_open = self.saw_backward = False
        self.loss_scale = self.clip = self._seen = None

    def _tell_of_the_last_step(self) -> None:
        """Makes a record, which waits, of an idle step that has just passed without one."""
        if self._is_untold and self._pending is None and not self.is_open:
            self._is_untold = False
            record = StepRecord(self.step - 1, self._clock(), 0, False, (), {}, (), ())
            self._pending = self.outbox.seal(record, None)

    def _decide_what_is_due(self) -> None:
        due = self._agenda.due(self.step, None if self.keeper is None else self.keeper.alarm(self.step))
        has_dumps = self._whole.may_be_wanted
        is_idle = not due and self._records > 0 and not (has_dumps or self._is_followed or self.config.nan_trace)
        if is_idle:
            self._wakes_at = self._agenda.next_due(self.step + 1)
        is_other = self.is_away or is_idle is not self.is_idle or has_dumps
        if is_other or due is not self._due:
            self.is_idle = is_idle
            changed = None if is_other else due ^ self._due
            self._expect(due)
            self._followers.tell(changed)

    def _expect(self, due: frozenset[str]) -> None:
        """What hooks and collectors of the step in progress are told."""
        self._due = due
        plan = self._plans.get(due)
        if plan is None:
            plan = self._plans[due] = plan_of(due, self._collect)
        self._plan = plan
        self.is_away = False
        self.sees_forward = "activation" in self._due
        self.sees_backward = "activation_grad" in self._due
        self.sees_inputs, self.sees_input_grads = "input" in self._due, "input_grad" in self._due
        self.sees_communication = "communication" in self._due
        self.sees_unreduced = "gradient/unreduced" in self._due
        self.wants_histogram = frozenset(self.config.histograms.subjects if "histogram" in self._due else ())
        self.dumps = self._whole.decide(self.step)
        self.is_looking = self.sees_forward or self.sees_backward or bool(self.dumps)
        is_timed = self._agenda.is_timed and not self.is_idle
        self.time.pause(not is_timed)
        self._enter = self.time.enter if is_timed else bool  # which does nothing

    def _step_of(self, view: View) -> Step:
        now, batches = time.perf_counter() - self._ended, self.micro_batches
        step = Step(view, self.step, self._loss, self.loss_scale, now, micro_batches=batches, time=self.time)
        step.more, step.clip, step.outbox = self.more, self.clip, self.outbox
        step.bins, step.histogram_subjects = self.bins, self.config.histograms.subjects
        return step

    def _step_after(self, view: View) -> Step:
        """The step, whose weights have moved; what was seen before that is seen again."""
        step, self._seen = self._seen, None
        if step is None:
            return self._step_of(view)
        step.weights_moved()
        step.loss, step.loss_scale, step.clip = self._loss, self.loss_scale, self.clip
        step.elapsed_s = time.perf_counter() - self._ended
        return step

    def _finish_micro_step(self) -> None:
        if self._loss is not None and self.is_due("loss"):
            self._draft.put("loss", "loss", self._loss)
        self.outbox.send(self._record(tuple(self._hook_rows.take(self.outbox.owe_block))))
        self.micro_step += 1
        self.stamp += 1
        self.saw_backward = False

    def dump_to(self, dumper: Dumper) -> None:
        """Nothing; whole tensors go there from now on."""
        self._whole.dumper = dumper
        self._decide_what_is_due()

    def keep(self, keeper: FlightKeeper) -> None:
        """Nothing; it says from now on what anomaly there was, and holds tensors if it can."""
        self.keeper = self._whole.keeper = keeper
        self._decide_what_is_due()

    def _record(self, blocks: tuple[Block, ...], *, skipped: bool = False) -> StepRecord:
        if self._whole.dumper is not None:
            self._events += self._whole.dumper.take_events()
        record = StepRecord(
            self.step,
            self._clock(),
            self.micro_step,
            skipped,
            blocks,
            self._draft.scalars,
            tuple(self._draft.histograms),
            tuple(self._events),
        )
        agenda = self._agenda
        splits = splitter(agenda.in_flight, agenda.scheduled, self._draft.measured) if agenda.in_flight else None
        record = self.outbox.seal(record, splits)
        self._draft.clear()
        self._events, self._loss = [], None
        return record

    def _is_bad(self, norm: float | LateScalar | None) -> bool:
        """Whether a gradient is not finite; what an update depends on is waited for, on a device as well."""
        if callable(norm):
            self.outbox.wait()
            norm = norm() if self.takes_promises else None  # unless the device has just failed
        return norm is not None and not math.isfinite(norm)
