"""The sequence of a step: what an adapter tells, and the records that it becomes.

An adapter tells the recorder what happens, in the framework's own order:

    forward_begins -> (rows filled by hooks) -> backward_begins -> (rows) -> before_step -> after_step

A forward that begins after a backward without a step between them opens the next micro-step: the rows so far become a
record of their own. After a step the record waits until the next thing happens, so that scalars logged behind
`optimizer.step()` still belong to it.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import get_ident
from typing import ParamSpec

from ...storage.records import Block, Event, StepRecord
from ..collectors.collector import View
from ..configuration.config import Config
from ..configuration.reaction_settings import Refusal, refusal_of
from ..device_results import LateScalar, Outbox, sum_of
from ..errors import TrainingTouched
from ..kernels import More
from ..quantities.noise_scale import MicroBatches
from ..quantities.step_clock import BACKWARD, BETWEEN, DATA, FORWARD, MONITOR, OPTIMIZER, StepTime
from ..resume import ResumePoint
from .assembly import Assembly
from .current import CurrentStep
from .draft import Draft
from .due_collectors import Due
from .first_step import empty_step
from .newest import Newest
from .row_buffers import HookRows
from .survey import Survey
from .whole_tensors import WholeTensors

_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")


class Recorder:
    """Collects one rank's observations step by step; `emit` gets each finished record.

    Args:
        due: Makes what decides what is due.

    Attributes:
        current: The step in progress, with what is due in it.
        due: Decides that; who wants to be told when other things are due turns there.
        rows_of, open_rows, columns: Those of `HookRows`, which hooks fill; `activations` and `activation_grads` are
            two of them.
        measure: `measure(address, size, code, out_address)` fills a row of statistics.
        draft, whole_tensors, outbox: Where hooks put what is no row; what a device owes is asked for at the last.
        log, event, flush, held: Those of `Newest`.
        refusal: What is done about an update whose gradients are not finite.
        expects_activations: Whether the model calls hooks, so that it is told when they see nothing.
        resume_points: Of earlier runs, which the first step is compared with.
        note_resume_point: Records, with this reason, where the training stands.
    """

    def __init__(
        self,
        config: Config,
        emit: Callable[[StepRecord], None],
        *,
        clock: Callable[[], float] = time.time,
        due: Callable[[Config, CurrentStep, WholeTensors, StepTime], Due] = Due,
    ) -> None:
        self.config = config
        self.current = current = CurrentStep()
        self.outbox = outbox = Outbox(emit, self.fail)
        self.time, self.more = StepTime(), More.of(config.statistics)
        self.measure, rows = self.more.kernel(), HookRows(self.more)
        self.rows_of, self.open_rows, self.columns = rows.of, rows.open, rows.columns
        self.activations, self.activation_grads = rows.of("activation"), rows.of("activation_grad")
        self.draft = draft = Draft(rows.open, outbox)
        self.whole_tensors = whole = WholeTensors(current, outbox)
        self.refusal: Refusal = refusal_of(config.on_finding)
        self.expects_activations = True
        self.resume_points: tuple[ResumePoint, ...] = ()
        self.note_resume_point: Callable[[str], None] = lambda _: None  # where no facts are told
        self._newest = Newest(current, draft, outbox, clock)
        self.log, self.event, self.held = self._newest.log, self._newest.event, self._newest.held
        self.flush = self.timed(self._newest.flush)
        self.due = due(config, current, whole, self.time)
        self._survey = Survey(
            current, self.due, draft, outbox,
            more=self.more, step_time=self.time, refuses=bool(self.refusal), failed=self.fail,
        )  # fmt: skip
        self._assembly = Assembly(current, self.due, draft, rows, whole, outbox, clock)
        self.due.decide()

    # What the adapter tells -------------------------------------------------------------------------------------

    def forward_begins(self) -> None:
        """A training forward of the whole model begins."""
        if self._newest.record is not None or self.outbox.waiting:
            self.flush()
        current = self.current
        if current.saw_backward and current.is_open:
            self._finish_micro_step()
        current.is_open, current.thread = True, get_ident()
        self.due.enter(FORWARD)

    def backward_begins(self, loss: float | LateScalar | None, *, is_anew: bool = False) -> None:
        """A backward pass starts from a scalar of this value, known or late, or from something that is none.

        Args:
            is_anew: Whether what earlier passes of the step have brought counts for nothing, and their losses.
        """
        if self._newest.record is not None or self.outbox.waiting:
            self.flush()
        current = self.current
        current.saw_backward = current.is_open = True
        current.root = loss
        if is_anew:
            current.loss = None
        if loss is not None:
            current.loss = loss if current.loss is None else sum_of(current.loss, loss)
        self.due.enter(BACKWARD)

    def backward_ends(self) -> None:
        """The backward pass is over; what it computed may be clipped or unscaled in place from here on."""
        if self.outbox.owed is not None:
            self.outbox.launch()
        if self.current.saw_backward:
            self.due.enter(BETWEEN)

    def before_step(self, view: View) -> None:
        """The optimizer is about to move the weights."""
        self.due.enter(MONITOR)
        if self._newest.record is not None or self.outbox.waiting:
            self.flush()
        self.current.is_open = True
        self._survey.before(view)
        if self.current.dumps:
            for subject in self.current.dumps & {"weight", "gradient"}:
                self.whole_tensors.take_parameters(view, subject)
        if self.outbox.owed is not None:
            self.outbox.launch()
        self.due.enter(OPTIMIZER)

    def after_step(self, view: View, *, skipped: bool = False) -> None:
        """The step is over; `skipped` when overflow kept the optimizer from moving the weights."""
        current, survey = self.current, self._survey
        was_idle = current.is_idle
        if was_idle:
            if self._newest.record is not None or self.outbox.waiting:
                self.flush()
            survey.ended = time.perf_counter()
            if not skipped and self._newest.passes(survey.ended):
                current.next_step()
                if current.step >= self.due.wakes_at:
                    self.due.decide()
                return
        self.due.enter(MONITOR)
        if not was_idle:
            self.time.ended += 1
            survey.after(view)
        survey.ended = time.perf_counter()
        blocks = self._assembly.blocks(view)
        if not current.has_recorded:
            self._look_at_the_first(blocks)
        self._newest.put(self._assembly.record(blocks, skipped=skipped))
        current.has_recorded = True
        if current.micro_batches.squares or current.micro_batches.late:
            current.micro_batches = MicroBatches()
        current.next_step()
        self.due.decide()
        self.due.enter(DATA)

    def timed(self, work: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        """The work itself; a recorder that has to know its cost times it."""
        return work

    def fail(self, name: str, error: Exception) -> None:
        """The collector is switched off; said once in the log and once in the run."""
        if name in self.due.agenda.off:
            return
        self.due.agenda.off.add(name)
        step = self.current.step
        _log.error("collector %r failed at step %d and is switched off: %s", name, step, error, exc_info=error)
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, TrainingTouched):
            self.event("monitor_fault", collector=name, error=said, touched=True)
        else:
            self.event("monitor_fault", collector=name, error=said)
        self.due.decide()

    # What the monitor tells -------------------------------------------------------------------------------------

    def follow(self, config: Config) -> None:
        """Nothing; the schedules of this configuration hold from the step that begins next."""
        self.config = config
        self.due.follow(config)

    def log_of_user(self, scalars: Mapping[str, float]) -> None:
        """Scalars that the user gives: from now on it must be known where a step begins."""
        self.due.mark_steps()
        self.log(scalars)

    def finish(self) -> tuple[Event, ...]:
        """What happened behind the last step and is part of no record; all else is handed over, whole steps or not.

        A device is waited for.
        """
        current, draft, dumper = self.current, self.draft, self.whole_tensors.dumper
        self.flush(wait=True)
        if dumper is not None:
            self.outbox.wait()
            draft.events += dumper.close()
        blocks = self._assembly.blocks()  # collectives behind the last step are among them
        is_left = bool(current.is_open or blocks or draft.scalars or self.outbox.owed)
        if is_left:
            self.outbox.send(self._assembly.record(blocks))
            self.outbox.drain(wait=True)
        current.is_open = False
        last = max(current.step - 1, 0)
        return () if is_left else tuple([replace(one, step=min(one.step, last)) for one in draft.events])

    # Inside -----------------------------------------------------------------------------------------------------

    def _finish_micro_step(self) -> None:
        if self.current.loss is not None and "loss" in self.current.due:
            self.draft.put("loss", "loss", self.current.loss)
        self.outbox.send(self._assembly.record(self._assembly.blocks()))
        self.current.next_micro_step()

    def _look_at_the_first(self, blocks: list[Block]) -> None:
        is_expected = self.current.sees_forward and self.expects_activations
        if is_expected and all(block.layout.subject != "activation" for block in blocks):
            self.event("monitor_fault", collector="activation", error=empty_step(self.config.record))
