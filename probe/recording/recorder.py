"""The sequence of a step: what an adapter reports, and the records that it becomes.

An adapter tells the recorder what happens, in the framework's own order:

    forward_begins -> (rows filled by hooks) -> backward_begins -> (rows) -> before_step -> after_step

A forward that begins after a backward without a step between them opens the next micro-step: the rows so far become a
record of their own. After a step the record waits until the next thing happens, so that scalars logged after
`optimizer.step()` still belong to it.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from threading import get_ident

from ...storage.records import Block, Event, Json, StepRecord
from ..collectors.collector import Step, View
from ..configuration.config import Config
from ..configuration.reaction_settings import Refusal, refusal_of
from ..device_results import DeviceResults, PendingResults
from ..errors import TrainingTouched
from ..flight_recorder import splitter
from ..guard import Guard, belongs_to_training
from ..kernels import More
from ..late_scalars import LateScalar, late_sum
from ..quantities.noise_scale import MicroBatches
from ..quantities.step_clock import BACKWARD, BETWEEN, DATA, FORWARD, MONITOR, MOST_MARKS, OPTIMIZER, StepTime
from ..resume import ResumePoint
from .current_step import CurrentStep
from .due_collectors import Due
from .first_step import initial_weights, report_empty_step
from .last_loss import LastLoss
from .row_buffers import Draft, HookRows
from .whole_tensors import WholeTensors

#: Steps at which nothing is due are recorded so often: as often as a person's commands are looked for. Our choice.
QUIET_S = 0.2
#: Weights named each time that weights were written between two steps.
_MOST_NAMED = 8


class Recorder:
    """Collects one rank's observations step by step; `emit` gets each finished record.

    Args:
        due: Makes what decides what is due.

    Attributes:
        current: The step in progress, with what is due in it.
        due: Decides that, and notifies who depends on it.
        rows_of, open_rows, columns: Those of `HookRows`, which hooks fill; `activations` and `activation_grads` are
            two of them.
        measure: `measure(address, size, code, out_address)` fills a row of statistics.
        draft, whole_tensors, device_results: Where hooks put what is no row.
        refusal: What is done about an update whose gradients are not finite.
        guard: Takes what we raise into the training.
        last_loss: The loss of the newest idle step.
        expects_activations: Whether the model calls hooks, so that a step without activations is a fault.
        sees_first_weights: Whether nothing has trained the model before the first step.
        resume_points: Points of earlier runs, which the first step is compared with.
        note_resume_point: Records, with this reason, where the training stands.
        last_looks: Called as the training ends, with the error that ends it.
        written: Returns how many records were written so far, and the processor time in seconds that it took.
        held_bytes: Returns the bytes that monitors hold in this process.
    """

    def __init__(
        self,
        config: Config,
        emit: Callable[[StepRecord], None],
        *,
        clock: Callable[[], float] = time.time,
        due: Callable[[Config, CurrentStep, WholeTensors, StepTime], Due] = Due,
    ) -> None:
        self.config, self._emit, self._clock = config, emit, clock
        self.current = current = CurrentStep()
        self.guard = Guard(
            self._give_up, lambda: f"the monitor failed at step {current.step} and records nothing from here on"
        )
        self.device_results = device_results = DeviceResults(emit, self.fail)
        self.time, self.more = StepTime(), More.of(config.statistics)
        self.measure, self._rows = self.more.kernel(), HookRows(self.more)
        # Methods of the rows by names of ours: hooks call them for every tensor, and a call less is measurable.
        self.rows_of, self.open_rows, self.columns = self._rows.of, self._rows.open, self._rows.columns
        self.activations, self.activation_grads = self.rows_of("activation"), self.rows_of("activation_grad")
        self.draft = Draft(self.open_rows, device_results)
        self.whole_tensors = whole = WholeTensors(current, device_results)
        self.refusal: Refusal = refusal_of(config.on_finding)
        self.expects_activations = self.sees_first_weights = True
        self.resume_points: tuple[ResumePoint, ...] = ()
        self.note_resume_point: Callable[[str], None] = lambda _: None  # where no facts are recorded
        self.last_looks: list[Callable[[BaseException | None], None]] = []
        self.written: Callable[[], tuple[int, float]] = lambda: (0, 0.0)  # while nobody writes
        self.held_bytes: Callable[[], int] = int  # likewise
        self.last_loss = LastLoss()
        self.due = due(config, current, whole, self.time)
        self._newest: StepRecord | None = None  # waits for what is logged after its step
        self._pending: PendingResults | None = None  # what a device has yet to bring to it
        self._is_unrecorded, self._records_at = False, 0.0  # of idle steps: the last one, and when one is due
        self._seen: Step | None = None  # what collectors saw before the weights moved
        self._step_ended = time.perf_counter()
        self.due.decide()

    # What the adapter reports -----------------------------------------------------------------------------------

    def forward_begins(self) -> None:
        """Open the step, or its next micro-step: a training forward of the whole model begins."""
        if self._newest is not None or self.device_results.waiting:
            self.flush()
        current, clock = self.current, self.time
        if current.saw_backward and current.is_open:
            self._finish_micro_step()
        current.is_open, current.thread = True, get_ident()
        if clock.is_running:
            clock.marks.append((FORWARD, clock.clock()))
            if len(clock.marks) > MOST_MARKS:  # forwards alone end no step
                clock.add_up()

    def backward_begins(self, loss: float | LateScalar | None, *, is_anew: bool = False) -> None:
        """Add the loss that a backward pass starts from, known or late; None where it is no scalar.

        Args:
            is_anew: Whether earlier passes of the step, and their losses, count for nothing.
        """
        if self._newest is not None or self.device_results.waiting:
            self.flush()
        current, clock = self.current, self.time
        current.saw_backward = current.is_open = True
        current.root = loss
        if is_anew:
            current.loss = current.earlier_loss = None
            current.passes = 0
        current.passes += 1
        if loss is not None:
            current.loss = loss if current.loss is None else late_sum(current.loss, loss)
        if clock.is_running:
            clock.marks.append((BACKWARD, clock.clock()))

    def backward_ends(self) -> None:
        """Close the backward pass; what it computed may be clipped or unscaled in place from here on."""
        if self.device_results.pending is not None:
            self.device_results.launch()
        clock = self.time
        if self.current.saw_backward and clock.is_running:
            clock.marks.append((BETWEEN, clock.clock()))

    def before_step(self, view: View) -> None:
        """Run the collectors that read before the optimizer moves the weights."""
        current, clock = self.current, self.time
        if clock.is_running:
            clock.marks.append((MONITOR, clock.clock()))
        if self._newest is not None or self.device_results.waiting:
            self.flush()
        current.is_open = True
        if self.sees_first_weights and not current.has_recorded:
            self.draft.events += initial_weights(self._step_of(view), current.micro_step, self.device_results)
        current.has_bad_gradient = False
        if self.due.plan.before or self.due.plan.after:
            self._collect_before(view)
        for subject in current.dumps & {"weight", "gradient"}:
            self.whole_tensors.take_parameters(view, subject)
        if self.device_results.pending is not None:
            self.device_results.launch()
        if clock.is_running:
            clock.marks.append((OPTIMIZER, clock.clock()))

    def after_step(self, view: View, *, skipped: bool = False) -> None:
        """Run the collectors that read after the step, make its record, and begin the next step.

        Args:
            skipped: Whether overflow kept the optimizer from moving the weights.
        """
        current, due, clock = self.current, self.due, self.time
        was_idle = current.is_idle
        if was_idle and self._passes_idle(skipped=skipped):
            return
        if clock.is_running:
            clock.marks.append((MONITOR, clock.clock()))
        if not was_idle:
            clock.ended += 1
            self.last_loss.usual_passes = current.passes
            if current.micro_step and current.loss is not None and "loss" in current.due:
                self.draft.put("loss", "micro_loss", current.loss)
            self.draft.collect(due.plan.after, self._step_after(view), self.fail)
        self._step_ended = time.perf_counter()
        blocks = self._rows.take(self.device_results.fill_later, self.draft.rows, view)
        if not current.has_recorded:
            self._check_first_record(blocks)
        record, pending = self._record(blocks, skipped=skipped)
        self._pending, self._newest, self._is_unrecorded = pending, record, False  # in this order, for `held`
        current.has_recorded = True
        if current.micro_batches.squares or current.micro_batches.late:
            current.micro_batches = MicroBatches()
        current.next_step()
        if current.step >= (due.wakes_at if was_idle else due.settled_until) or current.is_away:
            due.decide()
        if clock.is_running:
            clock.marks.append((DATA, clock.clock()))

    # What the training reports ----------------------------------------------------------------------------------

    def log(self, scalars: Mapping[str, float]) -> None:
        """Add scalars to the step in progress, or to the one that has just ended when none is."""
        if self._is_unrecorded:
            self._record_idle_step()
        if self._newest is None:
            self.draft.scalars.update(scalars)
        else:
            self._newest = replace(self._newest, scalars={**self._newest.scalars, **scalars})

    def log_of_user(self, scalars: Mapping[str, float]) -> None:
        """Add scalars that the user gives: from now on it must be known where a step begins."""
        self.due.mark_steps()
        self.log(scalars)

    def event(self, kind: str, site: str = "", **data: Json) -> None:
        """Add an event to the step in progress, or to the one that has just ended when none is."""
        step, micro_step = self.place()
        self.add_events([Event(kind, step, site, micro_step, data)])

    def place(self) -> tuple[int, int]:
        """Return step and micro-step of the step in progress, or of the one that has just ended when none is."""
        if self._is_unrecorded:
            self._record_idle_step()
        here = self.current if self._newest is None else self._newest
        return here.step, here.micro_step

    def add_events(self, events: Iterable[Event]) -> None:
        """Add events of this very place."""
        if self._newest is None:
            self.draft.events += events
        else:
            self._newest = replace(self._newest, events=(*self._newest.events, *events))

    def fail(self, name: str, error: BaseException) -> None:
        """Switch the collector off, and report that once in the log and once in the run.

        Raises:
            BaseException: The error itself, if it belongs to the training.
        """
        if belongs_to_training(error):
            raise error
        off = self.due.agenda.off
        if name in off:
            return
        off.add(name)
        step = self.current.step
        self.guard.tell(f"collector {name!r} failed at step {step} and is switched off", error)
        self._report_fault(name, error)
        self.due.decide()

    # What the monitor asks for ----------------------------------------------------------------------------------

    def follow(self, config: Config) -> None:
        """Use the schedules of this configuration from the step that begins next."""
        self.config = config
        self.due.follow(config)

    def flush(self, *, wait: bool = False) -> None:
        """Emit the waiting record, and those whose numbers have come from a device; `wait` for those that have not."""
        if wait and self._is_unrecorded:
            self._record_idle_step()
        record, pending, device_results = self._newest, self._pending, self.device_results
        if record is not None:
            self._newest = self._pending = None
            if pending is None and not device_results.waiting:
                self._emit(record)
            else:
                device_results.send(record, pending)
        if device_results.waiting:
            device_results.drain(wait=wait)

    def held(self) -> StepRecord | None:
        """Return what is known of the newest step, if its record was not emitted yet; any thread may ask."""
        record, pending = self._newest, self._pending
        if record is None:
            is_unrecorded = self._is_unrecorded and not self.current.is_open
            return StepRecord(self.current.step - 1, self._clock()) if is_unrecorded else None
        known = record if pending is None else replace(record, blocks=(), histograms=())
        return known if self._newest is record else None

    def record_last_loss(self) -> None:
        """Record the loss of the last step, if it is an idle one that only the budget has left out."""
        step, newest = self.current.step - 1, self._newest
        loss = self.last_loss.of(step)
        if loss is None or "loss" in self.due.agenda.off or not self.config.schedule("loss").is_due(step):
            return
        if newest is not None and newest.step == step:
            self._newest = replace(newest, scalars={"loss": loss, **newest.scalars})
        elif newest is None and self._is_unrecorded and not self.current.micro_step:  # which are recorded behind it
            self._is_unrecorded = False
            self.device_results.send(StepRecord(step, self._clock(), 0, False, (), {"loss": loss}, (), ()), None)

    def finish(self) -> tuple[Event, ...]:
        """Emit everything, whole steps or not, and return the events after the last step that no record holds.

        A device is waited for.
        """
        current, draft, dumper = self.current, self.draft, self.whole_tensors.dumper
        self.flush(wait=True)
        if dumper is not None:
            self.device_results.wait()
            draft.events += dumper.close()
        blocks = self._rows.take(self.device_results.fill_later)  # collectives after the last step are among them
        is_left = bool(current.is_open or blocks or draft.scalars or self.device_results.pending)
        if is_left:
            self.device_results.send(*self._record(blocks))
            self.device_results.drain(wait=True)
        current.is_open = False
        last = max(current.step - 1, 0)
        return () if is_left else tuple([replace(event, step=min(event.step, last)) for event in draft.events])

    # Inside -----------------------------------------------------------------------------------------------------

    def _give_up(self, error: BaseException) -> None:
        """Have hooks record nothing any more, and report why."""
        self.due.look_away()
        self._report_fault("monitor", error)

    def _report_fault(self, name: str, error: BaseException) -> None:
        data: dict[str, Json] = {"collector": name, "error": f"{type(error).__name__}: {error}"}
        if isinstance(error, TrainingTouched):
            data["touched"] = True
        self.event("monitor_fault", "", **data)

    def _record(self, blocks: list[Block], *, skipped: bool = False) -> tuple[StepRecord, PendingResults | None]:
        """Return the record of the draft with these blocks, and what a device has yet to bring; begin a new draft."""
        current, draft, device_results, agenda = self.current, self.draft, self.device_results, self.due.agenda
        if self.whole_tensors.dumper is not None:
            draft.events += self.whole_tensors.dumper.take_events()
        record = StepRecord(
            current.step,
            self._clock(),
            current.micro_step,
            skipped,
            tuple(blocks),
            draft.scalars,
            tuple(draft.histograms),
            tuple(draft.events),
        )
        splits = splitter(agenda.in_flight, agenda.scheduled, draft.measured) if agenda.in_flight else None
        pending = None if device_results.pending is None else device_results.close(splits)
        if pending is None and splits is not None:
            record = splits(record)
        draft.clear()
        current.loss = None
        return record, pending

    def _finish_micro_step(self) -> None:
        current, whole = self.current, self.current.whole_loss()
        if current.loss is not None and "loss" in current.due:
            self.draft.put("loss", "micro_loss", current.loss)
        self.device_results.send(*self._record(self._rows.take(self.device_results.fill_later)))
        current.earlier_loss = whole
        current.next_micro_step()

    def _collect_before(self, view: View) -> None:
        """Run the collectors that read before the weights move, and prepare those that read after it."""
        step = self._seen = self._step_of(view)
        self.draft.collect(self.due.plan.before, step, self.fail)
        self.current.has_bad_gradient = bool(self.refusal) and self._is_bad(step.gradient_norm)
        for name, prepare in self.due.plan.prepare:  # without the collectors that have just failed
            try:
                prepare(step)
            except BaseException as error:  # noqa: BLE001  the training must not feel that a collector fails
                self.fail(name, error)
        if step.written:
            self.current.written += len(step.written)
            named: list[Json] = [asdict(weight) for weight in step.written[:_MOST_NAMED]]
            self.event("weights_written", "", parameters=len(step.written), of=len(view.names), weights=named)

    def _passes_idle(self, *, skipped: bool) -> bool:
        """Begin the next step if the idle one that is over needs no record; return whether that is so."""
        current, draft = self.current, self.draft
        if self._newest is not None or self.device_results.waiting:
            self.flush()
        now = self._step_ended = time.perf_counter()
        if skipped:
            return False
        if draft.scalars or draft.events or now >= self._records_at:
            self._records_at = now + QUIET_S
            return False
        self._is_unrecorded = True
        current.next_step()
        if current.step >= self.due.wakes_at:
            self.due.decide()
        return True

    def _record_idle_step(self) -> None:
        """Make a record, which waits, of an idle step that has just passed without one."""
        if self._newest is None and not self.current.is_open:
            self._is_unrecorded = False
            self._pending = None if self.device_results.pending is None else self.device_results.close(None)
            self._newest = StepRecord(self.current.step - 1, self._clock(), 0, False, (), {}, (), ())

    def _step_of(self, view: View) -> Step:
        """Return the step as collectors see it."""
        current = self.current
        return Step(
            view,
            current.step,
            current.loss if current.earlier_loss is None else current.whole_loss(),
            current.loss_scale,
            time.perf_counter() - self._step_ended,
            bins=current.bins,
            histogram_subjects=self.due.config.histograms.subjects,
            more=self.more,
            micro_batches=current.micro_batches,
            clip=current.clip,
            time=self.time,
            device_results=self.device_results,
            held_bytes=self.held_bytes,
        )

    def _step_after(self, view: View) -> Step:
        """Return the step after the weights have moved, with what collectors left in it before."""
        step, self._seen = self._seen, None
        current = self.current
        if step is None or step.number != current.step:
            return self._step_of(view)
        step.known_weights = None
        step.loss = current.loss if current.earlier_loss is None else current.whole_loss()
        step.loss_scale, step.clip = current.loss_scale, current.clip
        step.elapsed_s = time.perf_counter() - self._step_ended
        return step

    def _is_bad(self, norm: float | LateScalar | None) -> bool:
        """Return whether a gradient is not finite; an update depends on it, so a device is waited for as well."""
        if callable(norm):
            self.device_results.wait()
            norm = norm() if self.device_results.accepts_requests else None  # unless the device has just failed
        return norm is not None and not math.isfinite(norm)

    def _check_first_record(self, blocks: list[Block]) -> None:
        is_expected = self.current.sees_forward and self.expects_activations
        if is_expected and all(block.layout.subject != "activation" for block in blocks):
            self.event("monitor_fault", collector="activation", error=report_empty_step(self.config.record))
