"""The step in progress: what is due, what has been seen, and the record that it becomes.

An adapter tells the recorder what happens, in the framework's own order:

    forward_begins -> (rows filled by hooks) -> backward_begins -> (rows) -> before_step -> after_step

A forward that begins after a backward without a step between them opens the next micro-step: the rows so far become a
record of their own. After a step the record waits until the next thing happens, so that scalars logged behind
`optimizer.step()` still belong to it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from ..storage.records import Block, Event, Histogram, Json, StepRecord
from .block import CallRows, TableRows, merge_rows
from .collector import COLLECTORS, Collect, Rows, SiteRows, Step, View
from .config import Config
from .dump import Dumper
from .kernels import FLOAT64, STATISTICS, More
from .quantities.noise_scale import MicroBatches
from .schedule import Schedule

_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")

#: Of something that happens at every step, the first so many are noted, and later every so many.
_OFTEN, _SELDOM = 10, 100


class Recorder:
    """Collects one rank's observations step by step; `emit` gets each finished record.

    Attributes that hooks read: `stamp` changes with every micro-step; `sees_forward` and `sees_backward` say whether
    the hooks' quantities are due; `wants_histogram` and `dumps` name the hooks' subjects whose histogram, and whose
    whole tensors, are due; `is_looking` says whether any of this is so. `measure(address, size, code, out_address)`
    fills a row of statistics.
    """

    def __init__(
        self, config: Config, emit: Callable[[StepRecord], None], *, clock: Callable[[], float] = time.time
    ) -> None:
        self.config, self._emit, self._clock = config, emit, clock
        self.step = self.micro_step = self.stamp = 0
        self.is_open = False
        self.saw_backward = False
        self._more = More.of(config.statistics)
        self.measure = self._more.kernel()
        self._call_rows = {name: CallRows(name, self._columns(name)) for name, one in COLLECTORS.items() if one.measure}
        self.activations = self._call_rows["activation"]
        self.activation_grads = self._call_rows["activation_grad"]
        self.histograms: list[Histogram] = []
        self.dumper: Dumper | None = None
        self.dumps: frozenset[str] = frozenset()
        self.loss_scale: float | None = None
        self.clip: tuple[float, float] | None = None
        self.micro_batches = MicroBatches()
        self._records = self._residues = 0
        self.expects_activations = True
        self._schedules: dict[str, Schedule] = {}
        self.follow(config)
        self._collect: dict[str, Collect] = {n: c.build() for n, c in COLLECTORS.items() if c.build}
        self._off: set[str] = set()
        self._tables = TableRows()
        self._rows: dict[str, Rows] = {}
        self._scalars: dict[str, float] = {}
        self._events: list[Event] = []
        self._loss: float | None = None
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

    def backward_begins(self, loss: float | None) -> None:
        """A backward pass starts from a scalar of this value, or from something that is none."""
        self.flush()
        self.saw_backward = self.is_open = True
        if loss is not None:
            self._loss = loss if self._loss is None else self._loss + loss

    def before_step(self, view: View) -> None:
        """The optimizer is about to move the weights."""
        self.flush()
        self.is_open = True
        if not self._records:
            self._note_initial_weights(view)
        step = self._step_of(view)
        self._run("before_step", step)
        for subject in self.dumps & {"weight", "gradient"}:
            for site, array in view.arrays(subject):
                self.dump(subject, site, 0, array)
        for name, collect in self._collect.items():
            if COLLECTORS[name].at == "after_step" and self.is_due(name):
                self._guard(name, collect.prepare, step)

    def after_step(self, view: View, *, skipped: bool = False) -> None:
        """The step is over; `skipped` when overflow kept the optimizer from moving the weights."""
        step = self._step_of(view)
        self._run("after_step", step)
        self._ended = time.perf_counter()
        blocks = [*self._take_calls()]
        names = view.names
        wide = bool((step.weights().codes == FLOAT64).any())
        for subject, rows in self._rows.items():
            blocks += self._tables.blocks(subject, self._columns(subject), names, rows, wide=wide)
        self._note_an_empty_first_step(blocks)
        self._pending = self._record(tuple(blocks), skipped=skipped)
        self._records += 1
        self.step, self.micro_step = self.step + 1, 0
        self.micro_batches = MicroBatches()
        self.stamp += 1
        self.is_open = self.saw_backward = False
        self.loss_scale = self.clip = None
        self._decide_what_is_due()

    def residue(self, parameters: int, norm: float) -> None:
        """Gradients of earlier steps were there when new ones were about to be added; noted ever more rarely."""
        self._residues += 1
        if self._residues <= _OFTEN or self._residues % _SELDOM == 0:
            self.event("gradient_before_forward", parameters=parameters, l2_norm=finite_or_none(norm))

    def follow(self, config: Config) -> None:
        """Nothing; the schedules of this configuration hold from the step that begins next."""
        self.config = config
        self._schedules = {name: config.schedule(name) for name in COLLECTORS}
        if not self.is_open and self._records:
            self._decide_what_is_due()

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

    def timed(self, work: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        """The work itself; a recorder that has to know its cost times it."""
        return work

    def dump(self, subject: str, site: str, call: int, array: NDArray[Any]) -> None:
        """Nothing; a copy of the tensor goes to the dumper, if the site is wanted."""
        if self.dumper is not None and self.dumper.wants(site):
            self.dumper.take(subject, site, call, (self.step, self.micro_step), array)

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

    def flush(self) -> None:
        """Hands the waiting record over."""
        if self._pending is not None:
            record, self._pending = self._pending, None
            self._emit(record)

    def finish(self) -> None:
        """Hands over what is there, whole steps or not."""
        self.flush()
        if self.dumper is not None:
            self._events += self.dumper.close(self.step)
        if not self.is_open and not self._events and not self._scalars:
            return
        self._emit(self._record(tuple(self._take_calls())))
        self.is_open = False

    def is_due(self, name: str) -> bool:
        """Whether the collector of this name has something to do in the step in progress."""
        return name in self._due

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

    def _take_calls(self) -> Iterator[Block]:
        """The rows that hooks have filled."""
        for rows in self._call_rows.values():
            yield from rows.take()

    def _decide_what_is_due(self) -> None:
        self._due = {
            name for name, schedule in self._schedules.items() if name not in self._off and schedule.is_due(self.step)
        }
        self.is_away = False
        self.sees_forward = "activation" in self._due
        self.sees_backward = "activation_grad" in self._due
        self.sees_inputs, self.sees_input_grads = "input" in self._due, "input_grad" in self._due
        self.sees_communication = "communication" in self._due
        self.sees_unreduced = "gradient/unreduced" in self._due
        self.wants_histogram = frozenset(self.config.histograms.subjects if "histogram" in self._due else ())
        self.dumps = self.dumper.subjects_due(self.step) if self.dumper is not None else frozenset()
        self.is_looking = self.sees_forward or self.sees_backward or bool(self.dumps)

    def _columns(self, subject: str) -> tuple[str, ...]:
        """The statistics of a subject's rows, those on request behind the collector's own."""
        entry = COLLECTORS.get(subject) or COLLECTORS[subject.partition("/")[0]]
        has_more = entry.columns[: len(STATISTICS)] == STATISTICS and not subject.startswith("communication")
        return (*entry.columns, *self._more.columns) if has_more else entry.columns

    def _step_of(self, view: View) -> Step:
        step = Step(view, self.step, self._loss, self.loss_scale, time.perf_counter() - self._ended)
        step.more, step.clip = self._more, self.clip
        step.micro_batches = self.micro_batches
        step.bins, step.histogram_subjects = self.config.histograms.bins, self.config.histograms.subjects
        return step

    def _run(self, moment: str, step: Step) -> None:
        for name, collect in self._collect.items():
            if COLLECTORS[name].at == moment and self.is_due(name):
                found = self._guard(name, collect, step)
                if isinstance(found, tuple):
                    self.histograms += found
                elif found:
                    self._put(found)

    def _put(self, found: Mapping[str, Any]) -> None:  # Any: rows or numbers, told apart here
        for key, value in found.items():
            if isinstance(value, Rows):
                self._rows = merge_rows(self._rows, {key: value})
            elif isinstance(value, SiteRows):
                rows = self.open_rows(key, value.columns)
                for site, numbers in value.values.items():
                    rows.row(site, 0).put(numbers)
            else:
                self._scalars.setdefault(key, value)

    def _guard(self, name: str, work: Callable[[Step], Any], step: Step) -> Any:  # Any: whatever the work returns
        try:
            return work(step)
        except Exception as error:  # noqa: BLE001  the training must not feel that a collector fails
            self.fail(name, error)
            return None

    def _finish_micro_step(self) -> None:
        if self._loss is not None and self.is_due("loss"):
            self._scalars.setdefault("loss", self._loss)
        self._emit(self._record(tuple(self._take_calls())))
        self.micro_step += 1
        self.stamp += 1
        self.saw_backward = False

    def dump_to(self, dumper: Dumper) -> None:
        """Nothing; whole tensors go there from now on."""
        self.dumper = dumper
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
        self._rows, self._scalars, self._events, self.histograms, self._loss = {}, {}, [], [], None
        return record

    def _note_initial_weights(self, view: View) -> None:
        """What the weights of two and more dimensions were before the first step, for judging their initialisation."""
        rows = view.weights().statistics()
        for site, shape, row in zip(view.names, view.shapes, rows, strict=True):
            if len(shape) > 1:
                numbers = {"mean": finite_or_none(row[1]), "std": finite_or_none(row[2])}
                fan_in = int(np.prod(shape[1:]))
                self.event("initial_weight", site, **numbers, fan_in=fan_in, shape=list(shape))

    def _note_an_empty_first_step(self, blocks: list[Block]) -> None:
        is_expected = self.sees_forward and self.expects_activations and not self._records
        if not is_expected or any(block.layout.subject == "activation" for block in blocks):
            return
        message = (
            "no activation was recorded in the first due step; was the model called in training mode with gradients on?"
        )
        _log.warning("%s (configuration `record: %s`)", message, self.config.record)
        self.event("monitor_fault", collector="activation", error=message)


def finite_or_none(value: float) -> float | None:
    """The value where JSON can hold it, else None."""
    return float(value) if np.isfinite(value) else None
