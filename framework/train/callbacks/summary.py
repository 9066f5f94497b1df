"""Scalars of a training as event files, which TensorBoard shows and `mindscope import` reads."""

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .callback import Callback, RunContext


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
        """Nothing; a new file is open."""
        writer = import_module("tensorboard.summary.writer.event_file_writer")  # takes half a second to load
        self._writer = writer.EventFileWriter(self._folder)

    def on_train_step_end(self, context: RunContext) -> None:
        """Nothing; the values are written when they are due."""
        if (context.cur_step_num - 1) % self._every == 0:
            values = {"loss": float(context.net_outputs)}
            if context.optimizer is not None:
                values["learning_rate"] = float(context.optimizer.param_groups[0]["lr"])
            self._write(context.cur_step_num, values)

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Nothing; the results that are numbers are written."""
        numbers = {f"epoch/{name}": float(x) for name, x in context.results.items() if isinstance(x, int | float)}
        self._write(context.cur_step_num, numbers)

    def on_train_end(self, context: RunContext) -> None:
        """Nothing; the file is closed."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, values: dict[str, float]) -> None:
        events = import_module("tensorboard.compat.proto.event_pb2")
        summaries = import_module("tensorboard.compat.proto.summary_pb2")
        entries = [summaries.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        summary = summaries.Summary(value=entries)
        self._writer.add_event(events.Event(wall_time=self._clock(), step=step, summary=summary))
