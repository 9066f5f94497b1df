"""Callbacks that report a training: lines, times, histories, and event files for TensorBoard."""

import logging
import os
import time
from collections.abc import Callable
from importlib import import_module
from math import isfinite
from time import perf_counter
from typing import Any

from .callback import Callback, RunContext

_log = logging.getLogger(__name__)


class LossMonitor(Callback):
    """A line with epoch, step and loss, every so many steps.

    Args:
        per_print_times: Steps between lines.
        write: What takes the lines: `print`, or by default this module's log.
        stop_when_not_finite: Whether a loss that is NaN or infinite ends the training with an error.
    """

    def __init__(
        self,
        per_print_times: int = 1,
        write: Callable[[str], object] | None = None,
        *,
        stop_when_not_finite: bool = False,
    ) -> None:
        if per_print_times < 1:
            raise ValueError(f"LossMonitor expects per_print_times of 1 or more, got {per_print_times}")
        self._every, self._write, self._stops = per_print_times, write or _log.info, stop_when_not_finite

    def on_train_step_end(self, context: RunContext) -> None:
        """Write a line when one is due."""
        loss = float(context.net_outputs)
        if self._stops and not isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} at step {context.cur_step_num}; diagnose the run to see where it began"
            )
        if context.cur_step_num % self._every == 0:
            batches = "" if context.batch_num is None else f" of {context.batch_num}"
            step = (
                context.cur_step_num
                if context.batch_num is None
                else ((context.cur_step_num - 1) % context.batch_num + 1)
            )
            self._write(f"epoch {context.cur_epoch_num} step {step}{batches}, loss {loss:.6g}")


class TimeMonitor(Callback):
    """A line with the time of every epoch and of its mean step.

    Args:
        write: What takes the lines: `print`, or by default this module's log.
        clock: Tells the seconds.

    Attributes:
        epoch_s: Seconds of the last epoch, its evaluation included.
        step_s: Seconds of its mean step, without what stands between steps.
    """

    def __init__(
        self, write: Callable[[str], object] | None = None, *, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._write, self._clock = write or _log.info, clock
        self.epoch_s, self.step_s = 0.0, 0.0
        self._epoch_began, self._step_began, self._in_steps, self._steps = 0.0, 0.0, 0.0, 0

    def on_train_epoch_begin(self, context: RunContext) -> None:
        """Start the epoch's time."""
        self._epoch_began, self._in_steps, self._steps = self._clock(), 0.0, 0

    def on_train_step_begin(self, context: RunContext) -> None:
        """Start the step's time."""
        self._step_began = self._clock()

    def on_train_step_end(self, context: RunContext) -> None:
        """Count the step."""
        self._in_steps += self._clock() - self._step_began
        self._steps += 1

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Write a line."""
        self.epoch_s = self._clock() - self._epoch_began
        self.step_s = self._in_steps / max(1, self._steps)
        self._write(f"epoch {context.cur_epoch_num} took {self.epoch_s:.3f} s, {self.step_s * 1e3:.3f} ms a step")


class History(Callback):
    """The results of every epoch.

    Attributes:
        epoch: Numbers of the epochs.
        history: Values by name, one for each epoch; None where an epoch lacks one.
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[object]] = {}

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Keep the results."""
        for name in context.results:
            self.history.setdefault(name, [None] * len(self.epoch))
        for name, values in self.history.items():
            values.append(context.results.get(name))
        self.epoch.append(context.cur_epoch_num)


class SummaryCollector(Callback):
    """Writes loss and learning rate every so many steps, and the results of every epoch.

    What goes on inside the network is the monitor's to record: `mindscope.watch`.

    Args:
        summary_dir: Folder of the event files; made when it is missing.
        collect_freq: Steps between values.
        clock: Tells the seconds since 1970.
    """

    def __init__(
        self, summary_dir: str | os.PathLike[str], collect_freq: int = 10, *, clock: Callable[[], float] = time.time
    ) -> None:
        if collect_freq < 1:
            raise ValueError(f"SummaryCollector expects collect_freq of 1 or more, got {collect_freq}")
        self._folder, self._every, self._clock = os.fspath(summary_dir), collect_freq, clock
        self._writer: Any = None  # of tensorboard, which has no types

    def on_train_begin(self, context: RunContext) -> None:
        """Open a new file."""
        writer = import_module("tensorboard.summary.writer.event_file_writer")  # takes half a second to load
        self._writer = writer.EventFileWriter(self._folder)

    def on_train_step_end(self, context: RunContext) -> None:
        """Write the values when they are due."""
        if (context.cur_step_num - 1) % self._every == 0:
            values = {"loss": float(context.net_outputs)}
            if context.optimizer is not None:
                values["learning_rate"] = float(context.optimizer.param_groups[0]["lr"])
            self._write(context.cur_step_num, values)

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Write the results that are numbers."""
        numbers = {f"epoch/{name}": float(x) for name, x in context.results.items() if isinstance(x, int | float)}
        self._write(context.cur_step_num, numbers)

    def on_train_end(self, context: RunContext) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, values: dict[str, float]) -> None:
        events = import_module("tensorboard.compat.proto.event_pb2")
        summaries = import_module("tensorboard.compat.proto.summary_pb2")
        entries = [summaries.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        summary = summaries.Summary(value=entries)
        self._writer.add_event(events.Event(wall_time=self._clock(), step=step, summary=summary))
