"""The monitor: attached to a model, it records until it is closed; one lifecycle for every framework."""

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self

from ..storage import Event, Finding, Json, Listener, QueueWriter, Run, RunWriter, StepRecord
from ..storage.control_channel import ControlChannel
from ..storage.last_words import LastWords
from ..storage.stored_tensors import Blobs
from .actions.reactions import StepActions
from .adapters import Adapter
from .configuration.config import Config
from .configuration.sections import Dump
from .dump import Dumper
from .end_note import EndNote
from .failure_facts import failure_facts
from .flight_recorder import FlightRecords, FlightTensors
from .heartbeat import Communication, Heartbeat, Judge
from .lifecycle import held_bytes, register, unregister
from .logged_media import Channels, MediaLog
from .memory_facts import is_out_of_memory, memory_held
from .reconfiguration import ChangeWatcher, Reconfiguration
from .recording.overhead_budget import BudgetedRecorder
from .recording.recorder import Recorder
from .recording.scalars import numbers_in
from .resume import ResumePoint

_log = logging.getLogger(__name__)
#: Backward passes without any step, from which a training has missed its steps. Our choice.
_FEWEST_PASSES: Final = 20


class Monitor:
    """Watches until it is closed: by `close()`, as a context manager, or at exit; an error that ends it is recorded."""

    def __init__(self, adapter: Adapter, config: Config) -> None:
        self._adapter, self._config = adapter, config
        self._capacity, self._when_full = config.queue.capacity, config.queue.when_full
        self._recorder = (Recorder if config.budget is None else BudgetedRecorder)(config, self._emit)
        self._flight, self._flight_records = (
            config.flight_recorder,
            FlightRecords(config.flight_recorder, config.around),
        )
        self._recorder.due.watch_anomalies(self._flight_records)
        self._queue: QueueWriter | None = None
        self._reconfiguration: Reconfiguration | None = None
        self._structure_version = -1
        self._acts_at_every_step, self._looks_at = False, 0.0
        self._is_closed = self._is_copy = self._is_late = False
        self._standby = StepActions(config, adapter)
        self._media = MediaLog(config.media)
        self._note: EndNote | None = None
        self._heartbeat: Heartbeat | None = None
        try:
            adapter.attach(self._recorder)
        except BaseException:
            self.abandon()
            raise

    def write_to(self, writer: RunWriter, listeners: Sequence[Listener]) -> None:
        """Write records to this run, past the listeners, and close the monitor at exit."""
        held = self._recorder.held
        self._queue = QueueWriter(
            writer, listeners, self._capacity, self._when_full, flight_buffer=self._flight_records, pending=held
        )
        queue = self._queue
        self._recorder.written = lambda: queue.written
        self._recorder.time.background = lambda: queue.written[1]
        self._recorder.held_bytes = held_bytes
        register(self)

    def stand_by(self, url: str, control_channel: ControlChannel, run: str, *, rank: int, look_s: float) -> None:
        """Let findings or people save, pause and continue the training from now on."""
        self._standby.open(url, control_channel, run, rank=rank, look_s=look_s)

    def control(self, control: ChangeWatcher, run: str) -> None:
        """Follow changes of what is recorded of this run."""
        self._reconfiguration = Reconfiguration(control, self._recorder, self._adapter, self._standby, run)

    def leave_note(self, note: EndNote) -> None:
        """Let a fatal signal say where it struck, until the run ends."""
        self._note = note

    def beat(self, words: LastWords, communication: Communication, judge: Judge | None) -> None:
        """Say from now on what this rank communicates, and report hangs."""
        step, report = (lambda: self._recorder.current.step), self._writer.report
        self._heartbeat = Heartbeat(words, communication, step, judge=judge, report=report)
        self._heartbeat.start()

    def dump_to(self, blobs: Blobs, config: Dump) -> None:
        """Store the whole tensors that the configuration names there."""
        dumper = Dumper(config, blobs)
        if self._flight is not None and self._flight.tensors:
            self._flight_records.tensors = FlightTensors(self._flight, dumper, self._settle_within)
        self._recorder.due.dump_to(dumper)

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._writer.run

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the listeners have found so far."""
        return self._writer.findings

    @property
    def step(self) -> int:
        """Number of the step in progress, from 0."""
        return self._recorder.current.step

    @property
    def held_bytes(self) -> int:
        """Bytes of host memory that it holds, as far as they are counted."""
        return self._recorder.due.held_bytes + (0 if self._queue is None else self._queue.held_bytes)

    @property
    def fault(self) -> BaseException | None:
        """What keeps observations from being written at present; None when all is well."""
        return self._writer.fault

    def log(self, scalars: Mapping[str, float] | None = None, /, **more: float) -> None:
        """Add scalars to the step in progress, or to the one that has just ended.

        Args:
            scalars: For names that are no Python words: `{"loss/validation": 0.3}`.
            more: `loss=0.3`. One-element tensors are read; what is no number, or has no name, is left out with a
                warning.
        """
        guard = self._recorder.guard
        values, mistakes = guard(numbers_in, otherwise=({}, ()))({**(scalars or {}), **more})
        for mistake in mistakes:
            warnings.warn(mistake, stacklevel=2)
        if not self._is_closed:
            guard(self._recorder.log_of_user)(values)
        elif values:
            self._warn_of_late(", ".join(values))
        self._say_if_copied()

    def log_image(self, name: str, image: object, *, caption: str = "", channels: Channels | None = None) -> None:
        """Add an image, or several, to the step in progress, or to the one that has just ended.

        Args:
            name: As of a scalar: `samples/generated`.
            image: `(height, width)`, `(height, width, channels)` or `(channels, height, width)` of 1, 3 or 4 channels,
                or a batch of these, or a list; arrays, tensors or PIL images. Integers are 0 to 255, floats 0 to 1.
                What is no image is left out with a warning.
            channels: Where the channels are, for shapes such as `(3, 64, 3)`; by default the last axis that fits, for
                torch tensors the first.
        """
        self._log_media(lambda: self._media.images(name, image, self._recorder.place(), caption, channels), name)

    def log_audio(self, name: str, samples: object, rate: int, *, caption: str = "") -> None:
        """Add a sound to the step in progress, or to the one that has just ended.

        Args:
            name: As of a scalar: `speech/generated`.
            samples: `(frames)`, `(frames, channels)` or `(channels, frames)` of up to 8 channels; floats are -1 to 1,
                integers int16. What is no sound is left out with a warning.
            rate: Frames a second.
        """
        self._log_media(lambda: self._media.audio(name, samples, self._recorder.place(), rate, caption), name)

    def _log_media(self, make: Callable[[], tuple[list[Event], list[str]]], name: str) -> None:
        guard = self._recorder.guard
        if self._is_closed:
            self._warn_of_late(name)
        else:
            guard(self._recorder.due.mark_steps)()
            events, mistakes = guard(make, otherwise=([], []))()
            guard(self._recorder.add_events)(events)
            for mistake in mistakes:
                warnings.warn(mistake, stacklevel=3)
        self._say_if_copied()

    def _warn_of_late(self, names: str) -> None:
        """Warn once whoever logs after the end of the run."""
        if not self._is_late:
            self._is_late = True
            warnings.warn(
                f"run {self.run.id} is closed: {names} and what is logged from now on is not recorded; "
                f"call log before close",
                stacklevel=3,
            )

    def note_checkpoint(self) -> None:
        """Record where the training stands now, for comparison with a run that resumes from here."""
        if not self._is_closed:
            self._recorder.guard(self._recorder.note_resume_point)("checkpoint")

    def resume(self, points: tuple[ResumePoint, ...]) -> None:
        """Compare the first step with these points of earlier runs."""
        self._recorder.resume_points = points

    def step_done(self) -> None:
        """End the step in a loop that has no optimizer, or one that is not watched."""
        if not self._is_closed:
            self._recorder.guard(self._adapter.step_done)()
        self._say_if_copied()

    def _say_if_copied(self) -> None:
        """Warn once whoever goes on training in a forked copy of the process."""
        if self._is_copy:
            self._is_copy = False
            _log.warning(
                "run %s is recorded by the process that began it; this one is a forked copy, and what it trains is not "
                "recorded: begin a run of its own with watch()",
                self.run.id,
            )

    def flush(self) -> None:
        """Write what was recorded of finished steps, the last one included, to the store."""
        guard = self._recorder.guard
        guard.attempt(partial(self._recorder.flush, wait=True))
        guard.attempt(self._writer.flush)

    def close(self, error: BaseException | None = None) -> None:
        """Remove the hooks, write everything and end the run, as failed if there is an error.

        A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        attempt, last = self._recorder.guard.attempt, list[Event]()
        state: Literal["finished", "failed"] = "finished" if error is None else "failed"
        message = "" if error is None else f"{type(error).__name__}: {error}".removesuffix(": ")
        try:
            if self._heartbeat is not None:
                last += attempt(self._heartbeat.end, error, otherwise=())
            last += attempt(self._finish, error, otherwise=())
        finally:  # also where Ctrl-C strikes meanwhile
            attempt(partial(self._writer.close, state, message, events=last))
            if self._note is not None:
                attempt(self._note.discard)
            attempt(self._recorder.guard.tell_late)

    def _finish(self, error: BaseException | None) -> tuple[Event, ...]:
        """Remove the hooks, emit everything, and return the events that no record holds."""
        attempt, recorder = self._recorder.guard.attempt, self._recorder
        attempt(unregister, self)
        if recorder.current.has_recorded:
            attempt(recorder.record_last_loss)
            attempt(recorder.note_resume_point, "close")
            for look in recorder.last_looks:
                attempt(look, error)
        site, failure = ("", {}) if error is None else attempt(self._failure, error, otherwise=("", {}))
        attempt(self._adapter.detach)
        if self._flight_records.tensors is not None:  # findings of the last records may ask for tensors
            self.flush()
        if error is not None:
            attempt(self._note_end, site, failure)
        elif not (recorder.current.has_recorded or recorder.guard.is_off):
            attempt(self._warn_of_no_step)
        last: tuple[Event, ...] = attempt(recorder.finish, otherwise=())
        attempt(self._conclude)
        return last

    def _note_end(self, site: str, failure: dict[str, Json]) -> None:
        """Record what ended the training, where, and what the flight recorder does not hold of it."""
        recorder = self._recorder
        if missing := self._flight_records.release_tensors():
            recorder.event("tensors_left_out", "", **missing)
        recorder.event("exception", site, **failure)

    def _warn_of_no_step(self) -> None:
        current = self._recorder.current
        passes = current.micro_step + current.saw_backward
        if passes >= _FEWEST_PASSES:
            reason = "the training has ended without a step"
            self._recorder.event("no_step", "", passes=passes, reason=reason)
        _log.warning(
            "run %s: no step was recorded: no optimizer stepped this model, nor did its weights change; was "
            "optimizer.step() called, and on an optimizer of this model's parameters?",
            self.run.id,
        )

    def _conclude(self) -> None:
        """Do what the last findings ask for."""
        if self._standby.wants_findings:
            self._writer.settle()
            self._standby.conclude(self._writer.findings)

    def _failure(self, error: BaseException) -> tuple[str, dict[str, Json]]:
        """Return the site of the module that ran and the facts of what ended the run."""
        site, facts = failure_facts(error, self._adapter.modules())
        if is_out_of_memory(error):
            view = getattr(self._adapter, "view", None)
            facts["memory"] = memory_held(self._adapter.model, getattr(view, "optimizers", ()))
        return site, facts

    @property
    def has_run(self) -> bool:
        """Whether records are written to a run."""
        return self._queue is not None

    def abandon(self) -> None:
        """Leave nothing that works behind, where the watch could not begin."""
        guard = self._recorder.guard
        guard.is_off = True  # the caller says why
        guard.attempt(self._recorder.due.look_away)
        guard.attempt(self._adapter.detach)
        if self.has_run:
            guard.attempt(self.close)

    def retire(self) -> None:
        """Remove the hooks and end the run as it is, without a warning if nothing was recorded or is logged later."""
        self._is_closed = self._is_late = True
        unregister(self)
        self._adapter.detach()
        self._writer.close("finished", "", events=())

    def watches(self, model: object) -> bool:
        """Return whether this very model is watched."""
        return self._adapter.model is model

    def disown(self) -> None:
        """Remove the hooks in a forked copy of the process; the run stays with the parent."""
        self._is_closed = self._is_copy = self._is_late = True
        if self._note is not None:
            self._note.release()
        if self._heartbeat is not None:
            self._heartbeat.release()
        self._adapter.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    @property
    def _writer(self) -> QueueWriter:
        if self._queue is None:
            raise RuntimeError("the monitor has no run; make it with watch()")
        return self._queue

    def _settle_within(self, seconds: float) -> bool:
        """Return whether the rules have seen all records; do not wait if the training is never to wait."""
        return self._when_full == "block" and self._queue is not None and self._queue.settle(seconds)

    def _emit(self, record: StepRecord) -> None:
        """Hand the record over; look, a few times a second, for changed settings and for commands.

        A model that is only looked at has no run, and what a training does meanwhile is not kept.
        """
        if self._queue is None:
            return
        looks = self._acts_at_every_step or time.monotonic() >= self._looks_at
        if looks and self._reconfiguration is not None:
            self._reconfiguration.follow()
        if self._adapter.structure_version != self._structure_version:
            self._structure_version = self._adapter.structure_version
            self._writer.put_structure(self._adapter.structure())
        (self._queue or self._writer).put(record)
        if looks and not self._is_closed:
            is_over = record.step < self._recorder.current.step  # and not only one of its micro-steps
            self._act(record.step if is_over else None)
            self._acts_at_every_step = self._standby.acts_at_every_step
            self._looks_at = self._standby.looks_at
            if self._reconfiguration is not None:
                self._looks_at = min(self._looks_at, self._reconfiguration.control.looks_at)

    def _act(self, ended: int | None) -> None:
        """Does what findings and persons ask for; with a reaction in wait, the training waits here for the rules."""
        if self._standby.wants_findings:
            self._writer.settle()
            current = self._recorder.current
            self._standby.react(self._writer.findings, current.step, refused=current.refused)
        if ended is not None:
            self._recorder.due.follow_closely(self._standby.step_ended(ended))
