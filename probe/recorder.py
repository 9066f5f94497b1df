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

from ..storage.records import Block, Event, Histogram, Json, StepRecord
from .actions.settings import Refusal, refusal_of
from .block import CallRows, TableRows, merge_rows
from .collector import COLLECTORS, Collect, Rows, SiteRows, Step, View
from .config import Config
from .dump import Dumper
from .flight.keeper import FlightKeeper
from .flight.split import splitter
from .initial_weights import finite_or_none, initial_weights
from .kernels import FLOAT64, NO_MORE, STATISTICS, More
from .outbox import Outbox, sum_of
from .plan import Plan, plan_of
from .promises import LateScalar
from .quantities.noise_scale import MicroBatches
from .quantities.step_time import BACKWARD, BETWEEN, DATA, FORWARD, MONITOR, OPTIMIZER, StepTime
from .resume import ResumePoint
from .timetable import Timetable

_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")

#: Of something that happens at every step, the first so many are noted, and later every so many.
_OFTEN, _SELDOM = 10, 100
#: What hooks on modules are there for.
_OF_MODULES = frozenset({"activation", "activation_grad", "input", "input_grad"})
#: Steps without them that are worth taking these hooks off: both ways cost about as much as three idle calls.
_REST = 4


class Recorder:
    """Collects one rank's observations step by step; `emit` gets each finished record.

    Attributes that hooks read: `stamp` changes with every micro-step; `sees_forward` and `sees_backward` say whether
    the hooks' quantities are due; `wants_histogram` and `dumps` name the hooks' subjects whose histogram, and whose
    whole tensors, are due; `is_looking` says whether any of this is so; `root` is the value that the last backward pass
    started from. `measure(address, size, code, out_address)` fills a row of statistics. `has_bad_gradient` says, before
    an update, that a gradient holds NaN or infinity, where gradients are due; `refusal` is what is done about it.
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
        self.root: float | None = None
        self.batch_checksum = math.nan
        self.resume_points: tuple[ResumePoint, ...] = ()
        self.note_resume_point: Callable[[str], None] = _note_nothing
        self._more = More.of(config.statistics)
        self.measure = self._more.kernel()
        self._call_rows = {name: CallRows(name, self.columns(name)) for name, one in COLLECTORS.items() if one.measure}
        self.activations = self._call_rows["activation"]
        self.activation_grads = self._call_rows["activation_grad"]
        self.histograms: list[Histogram] = []
        self.dumper: Dumper | None = None
        self.keeper: FlightKeeper | None = None
        self.dumps: frozenset[str] = frozenset()
        self.loss_scale: float | LateScalar | None = None
        self.clip: tuple[float, float] | None = None
        self.micro_batches = MicroBatches()
        self.time = StepTime()
        self._records = self._residues = 0
        self.expects_activations = True
        self.refusal: Refusal = refusal_of(config.on_finding)
        self.has_bad_gradient = False
        self._timetable = Timetable({})
        self._told: Callable[[], object] = _nothing
        self._plans: dict[frozenset[str], Plan] = {}
        self.follow(config)
        self._collect: dict[str, Collect] = {n: c.build() for n, c in COLLECTORS.items() if c.build}
        self._off: set[str] = set()
        self._tables = TableRows()
        self._rows: dict[str, Rows] = {}
        self._scalars: dict[str, float] = {}
        self._measured: dict[str, str] = {}
        self._events: list[Event] = []
        self._loss: float | LateScalar | None = None
        self._pending: StepRecord | None = None
        self._ended = time.perf_counter()
        self._decide_what_is_due()

    # What the adapter tells -------------------------------------------------------------------------------------

    def forward_begins(self) -> None:
        """A training forward of the whole model begins."""
        self.flush()
        if self.saw_backward and self.is_open:
            self._finish_micro_step()
        self.is_open = True
        self.time.enter(FORWARD)

    def backward_begins(self, loss: float | LateScalar | None) -> None:
        """A backward pass starts from a scalar of this value, known or late, or from something that is none."""
        self.flush()
        self.saw_backward = self.is_open = True
        self.root = None if callable(loss) else loss
        if loss is not None:
            self._loss = sum_of(self._loss, loss)
        self.time.enter(BACKWARD)

    def backward_ends(self) -> None:
        """The backward pass is over; what it computed may be clipped or unscaled in place from here on."""
        self.outbox.launch()
        if self.saw_backward:
            self.time.enter(BETWEEN)

    def before_step(self, view: View) -> None:
        """The optimizer is about to move the weights."""
        self.time.enter(MONITOR)
        self.flush()
        self.is_open = True
        if not self._records:
            self._note_initial_weights(view)
        self.has_bad_gradient = False
        if self._plan.before or self._plan.after:
            step = self._step_of(view)
            step.outbox = None if self.refusal else self.outbox  # what an update depends on must be known before it
            self._run(self._plan.before, step)
            norm, step.outbox = step.gradient_norm, self.outbox
            self.has_bad_gradient = isinstance(norm, float) and not math.isfinite(norm)
            for name, collect in self._plan.after:
                self._guard(name, collect.prepare, step)
        for subject in self.dumps & {"weight", "gradient"}:
            for site, array in view.arrays(subject):
                self.dump(subject, site, 0, array)
        self.outbox.launch()
        self.time.enter(OPTIMIZER)

    def after_step(self, view: View, *, skipped: bool = False) -> None:
        """The step is over; `skipped` when overflow kept the optimizer from moving the weights."""
        self.time.enter(MONITOR)
        blocks: list[Block] = []
        if self._plan.after:
            self._run(self._plan.after, self._step_of(view))
        self._ended = time.perf_counter()
        blocks += self._take_calls()
        is_wide = lambda: bool((view.weights().codes == FLOAT64).any())  # noqa: E731  asked only for new layouts
        for subject, rows in self._rows.items():
            blocks += self._tables.blocks(subject, self.columns(subject), view.names, rows, is_wide=is_wide)
        self._note_an_empty_first_step(blocks)
        self._pending = self._record(tuple(blocks), skipped=skipped)
        self._records += 1
        self.step, self.micro_step, self.stamp = self.step + 1, 0, self.stamp + 1
        if self.micro_batches.squares:
            self.micro_batches = MicroBatches()
        self.is_open = self.saw_backward = False
        self.loss_scale = self.clip = None
        self._decide_what_is_due()
        self.time.enter(DATA)

    def residue(self, parameters: int, norm: float) -> None:
        """Gradients of earlier steps were there when new ones were about to be added; noted ever more rarely."""
        self._residues += 1
        if self._residues <= _OFTEN or self._residues % _SELDOM == 0:
            self.event("gradient_before_forward", parameters=parameters, l2_norm=finite_or_none(norm))

    def follow(self, config: Config) -> None:
        """Nothing; the schedules of this configuration hold from the step that begins next."""
        self.config, self.bins = config, config.histograms.of()
        self._timetable = Timetable({name: config.schedule(name) for name in COLLECTORS})
        self._in_flight = frozenset(name for name in COLLECTORS if config.is_in_flight(name))
        if not self.is_open and self._records:
            self._decide_what_is_due()

    @property
    def needs_modules(self) -> bool:
        """Whether hooks on modules have something to do in the step in progress."""
        return self.is_looking or self.sees_inputs or self.sees_input_grads

    def modules_rest(self) -> bool:
        """Whether no hook on a module will have anything to do in this step and the few that come."""
        is_asked = self._in_flight or self.dumper is not None
        return not is_asked and self._timetable.rests(_OF_MODULES, self.step, _REST)

    def tell(self, told: Callable[[], object]) -> None:
        """Nothing; it is called from now on when what is due has been decided, at the latest before a step begins."""
        self._told = told

    def rows_of(self, subject: str) -> CallRows:
        """The rows of a subject that hooks fill call by call."""
        return self._call_rows[subject]

    def open_rows(self, subject: str, columns: tuple[str, ...]) -> CallRows:
        """The rows of a subject of its own, kept as float64; made when they are first asked for.

        Raises:
            ValueError: The subject has other columns already.
        """
        rows = self._call_rows.get(subject)
        if rows is None:
            rows = self._call_rows[subject] = CallRows(subject, columns)
        if rows.statistics != columns:
            raise ValueError(
                f"{subject} has the statistics {', '.join(rows.statistics)}, got {', '.join(columns)}; "
                f"return the same ones every time"
            )
        rows.is_wide = True
        return rows

    def columns(self, subject: str) -> tuple[str, ...]:
        """The statistics of a subject's rows, those on request behind the collector's own."""
        entry = COLLECTORS.get(subject) or COLLECTORS[subject.partition("/")[0]]
        has_more = entry.columns[: len(STATISTICS)] == STATISTICS and not subject.startswith("communication")
        return (*entry.columns, *self._more.columns) if has_more else entry.columns

    def timed(self, work: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        """The work itself; a recorder that has to know its cost times it."""
        return work

    def dump(self, subject: str, site: str, call: int, array: NDArray[Any]) -> None:
        """Nothing; a copy of the tensor goes to the dumper or is held for it, if the site is wanted."""
        moment, held = (self.step, self.micro_step), None if self.keeper is None else self.keeper.tensors
        if self.dumper is not None and subject in self._dumps_now and self.dumper.wants(site):
            self.dumper.take(subject, site, call, moment, array)
        elif held is not None and held.wants(subject, site):
            held.take(subject, site, call, moment, array)

    def look_away(self) -> None:
        """Nothing; hooks have nothing to record until the step is over."""
        self.is_looking = self.sees_forward = self.sees_backward = self.sees_inputs = self.sees_input_grads = False
        self.is_away = True
        self.dumps = frozenset()

    def look_again(self) -> None:
        """Nothing; hooks record what is due in the step in progress."""
        self._decide_what_is_due()

    # What the monitor tells -------------------------------------------------------------------------------------

    def log(self, scalars: Mapping[str, float]) -> None:
        """Scalars of the step in progress, or of the one that has just ended when none is."""
        if self._pending is None:
            self._scalars.update(scalars)
        else:
            self._pending = replace(self._pending, scalars={**self._pending.scalars, **scalars})

    def event(self, kind: str, site: str = "", **data: Json) -> None:
        """Something exact that happened in the step in progress, or in the one that has just ended."""
        if self._pending is None:
            self._events.append(Event(kind, self.step, site, self.micro_step, data))
        else:
            event = Event(kind, self._pending.step, site, self._pending.micro_step, data)
            self._pending = replace(self._pending, events=(*self._pending.events, event))

    def flush(self, *, wait: bool = False) -> None:
        """Hands the waiting record over, and those that a device owed numbers; the device may be waited for."""
        if self._pending is not None:
            record, self._pending = self._pending, None
            self.outbox.send(record)
        if self.outbox.waiting:
            self.outbox.drain(wait=wait)

    def finish(self) -> None:
        """Hands over what is there, whole steps or not; a device is waited for."""
        self.flush(wait=True)
        if self.dumper is not None:
            self._events += self.dumper.close(self.step)
        blocks = tuple(self._take_calls())  # collectives behind the last step are among them
        if self.is_open or blocks or self._events or self._scalars:
            self.outbox.send(self._record(blocks))
            self.outbox.drain(wait=True)
        self.is_open = False

    def is_due(self, name: str) -> bool:
        """Whether the collector of this name has something to do in the step in progress."""
        return name in self._due

    @property
    def takes_promises(self) -> bool:
        """Whether tensors on a device are only asked for; statistics on request need a copy, which is waited for."""
        return self.outbox.takes_promises and not self._more.flags

    @property
    def has_recorded(self) -> bool:
        """Whether any step has been closed."""
        return self._records > 0

    def fail(self, name: str, error: Exception) -> None:
        """The collector is switched off; said once in the log and once in the run."""
        if name in self._off:
            return
        self._off.add(name)
        _log.error("collector %r failed at step %d and is switched off: %s", name, self.step, error, exc_info=error)
        self.event("monitor_fault", collector=name, error=f"{type(error).__name__}: {error}")
        self._decide_what_is_due()

    # Inside -----------------------------------------------------------------------------------------------------

    def _take_calls(self) -> list[Block]:
        """The rows that hooks have filled."""
        owe = self.outbox.owe_block
        return [block for rows in self._call_rows.values() if rows.is_used for block in rows.take(owe)]

    def _decide_what_is_due(self) -> None:
        anomaly = None if self.keeper is None else self.keeper.alarm(self.step)
        self._scheduled = self._timetable.due(self.step, anomaly)
        every = self._scheduled | self._in_flight if self._in_flight else self._scheduled
        due = every - self._off if self._off else every
        is_same = due is self._due and not self.is_away  # the timetable's answers are the same objects again
        if is_same and self.dumper is None and (self.keeper is None or self.keeper.tensors is None):
            self._told()
        else:
            self._expect(due)

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
        self._dumps_now = self.dumper.subjects_due(self.step) if self.dumper is not None else frozenset()
        held = None if self.keeper is None else self.keeper.tensors
        self.dumps = self._dumps_now if held is None else self._dumps_now | held.subjects
        self.is_looking = self.sees_forward or self.sees_backward or bool(self.dumps)
        self._told()

    def _step_of(self, view: View) -> Step:
        step = Step(view, self.step, self._loss, self.loss_scale, time.perf_counter() - self._ended, time=self.time)
        step.more, step.clip, step.outbox, step.micro_batches = self._more, self.clip, self.outbox, self.micro_batches
        step.bins, step.histogram_subjects = self.bins, self.config.histograms.subjects
        return step

    def _run(self, asked: tuple[tuple[str, Collect], ...], step: Step) -> None:
        for name, collect in asked:
            found = self._guard(name, collect, step)
            if isinstance(found, tuple):
                self.histograms += found
            elif found:
                self._put(name, found)

    def _put(self, collector: str, found: Mapping[str, Any]) -> None:  # Any: rows or numbers, told apart here
        for key, value in found.items():
            if isinstance(value, Rows):
                self._rows = merge_rows(self._rows, {key: value}, self.outbox.when_there)
            elif isinstance(value, SiteRows):
                rows = self.open_rows(key, value.columns)
                for site, numbers in value.values.items():
                    rows.row(site, 0).put(numbers)
            elif self._measured.get(key) == collector or key not in self._scalars:  # what the user logs has the word
                self._measured[key] = collector
                if callable(value):
                    self.outbox.late_scalar(key, value)
                else:
                    self._scalars[key] = value

    def _guard(self, name: str, work: Callable[[Step], Any], step: Step) -> Any:  # Any: whatever the work returns
        try:
            return work(step)
        except Exception as error:  # noqa: BLE001  the training must not feel that a collector fails
            self.fail(name, error)
            return None

    def _finish_micro_step(self) -> None:
        if self._loss is not None and self.is_due("loss"):
            self._put("loss", {"loss": self._loss})
        self.outbox.send(self._record(tuple(self._take_calls())))
        self.micro_step += 1
        self.stamp += 1
        self.saw_backward = False

    def dump_to(self, dumper: Dumper) -> None:
        """Nothing; whole tensors go there from now on."""
        self.dumper = dumper
        self._decide_what_is_due()

    def keep(self, keeper: FlightKeeper) -> None:
        """Nothing; it says from now on what anomaly there was, and holds tensors if it can."""
        self.keeper = keeper
        self._decide_what_is_due()

    def _record(self, blocks: tuple[Block, ...], *, skipped: bool = False) -> StepRecord:
        if self.dumper is not None:
            self._events += self.dumper.take_events()
        record = StepRecord(
            self.step,
            self._clock(),
            self.micro_step,
            skipped,
            blocks,
            self._scalars,
            tuple(self.histograms),
            tuple(self._events),
        )
        splits = splitter(self._in_flight, self._scheduled, self._measured) if self._in_flight else None
        record = self.outbox.seal(record, splits)
        self._rows, self._scalars, self._events, self.histograms, self._loss = {}, {}, [], [], None
        self._measured = {}
        return record

    def _note_initial_weights(self, view: View) -> None:
        """What the weights of two and more dimensions were before the first step, for judging their initialisation."""
        step = self._step_of(view)
        step.more = NO_MORE
        make = initial_weights(self.step, self.micro_step, view, step.statistics(step.weights()))
        if step.weights().remote:
            self.outbox.late_events(make)
        else:
            self._events += make()

    def _note_an_empty_first_step(self, blocks: list[Block]) -> None:
        is_expected = self.sees_forward and self.expects_activations and not self._records
        if not is_expected or any(block.layout.subject == "activation" for block in blocks):
            return
        message = (
            "no activation was recorded in the first due step; was the model called in training mode with gradients on?"
        )
        _log.warning("%s (configuration `record: %s`)", message, self.config.record)
        self.event("monitor_fault", collector="activation", error=message)


def _note_nothing(_reason: str) -> None:
    """Of a framework whose adapter tells no facts."""


def _nothing() -> None:
    """Nobody wants to be told."""
