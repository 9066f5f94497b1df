"""Series that hide one spike each, as a store of ours and as TensorBoard's event files, and a run that goes on."""

import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from mindscope.storage import Block, Layout, ModuleInfo, RunWriter, StepRecord, Structure, open_store
from numpy.typing import NDArray
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

METRIC = "activation/l2_norm"
#: How far the spike stands above everything else.
_HEIGHT = 25.0
_START = 1_795_000_000.0


class Spiked:
    """So many series of so many steps, noise around 1 with one spike in each, at a step of its own."""

    def __init__(self, series: int, steps: int, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.steps = steps
        self.sites = tuple(f"block.{at}" for at in range(series))
        self.values: NDArray[np.float32] = np.exp(random.normal(0, 0.1, (steps, series))).astype(np.float32)
        self.spikes = random.integers(0, steps, series)
        self.values[self.spikes, np.arange(series)] = _HEIGHT

    @property
    def points(self) -> int:
        """How many values there are."""
        return self.values.size

    def records(self, first: int = 0, last: int | None = None) -> Iterator[StepRecord]:
        """The records of some steps, as a monitor would hand them over."""
        layout = Layout("activation", self.sites, ("l2_norm",), ("float32",))
        for step in range(first, self.steps if last is None else last):
            row = self.values[step % self.steps].astype(np.float64)[:, None]
            yield StepRecord(step, _START + step, blocks=(Block(layout, row),), scalars={"loss": 1 / (step + 1)})

    def structure(self) -> Structure:
        """A chain of as many layers."""
        chain = zip(self.sites, ("", *self.sites), strict=False)
        return Structure(
            tuple(
                ModuleInfo(site, "Dense", at, (before,) if before else ()) for at, (site, before) in enumerate(chain)
            ),
            subjects=("activation",),
        )

    def write_store(self, folder: Path) -> str:
        """Writes all into a store in the folder; the id of the run."""
        with open_store(folder) as store:
            writer = store.begin_run("spiked")
            writer.write_structure(self.structure())
            for first in range(0, self.steps, 64):
                writer.write(list(self.records(first, min(first + 64, self.steps))))
                tidy(writer)
            writer.close()
            return writer.run.id

    def write_events(self, folder: Path) -> None:
        """Writes all as TensorBoard's event files; one tag a series."""
        writer = EventFileWriter(str(folder))
        for step in range(self.steps):
            values = [
                Summary.Value(tag=site, simple_value=value)
                for site, value in zip(self.sites, self.values[step].tolist(), strict=True)
            ]
            writer.add_event(Event(wall_time=_START + step, step=step, summary=Summary(value=values)))
        writer.close()


def tidy(writer: RunWriter) -> None:
    """Does all the housekeeping that is waiting."""
    while writer.maintain():
        pass


def train(folder: str, series: int, period_s: float, orders: Connection) -> None:
    """Writes a run step by step until told to stop, in a process of its own; answers how long its steps took.

    Args:
        orders: One end of a `multiprocessing.Pipe`: `"times"` asks for the seconds of processor that each step took
            since the last time, `"stop"` ends it.
    """
    data = Spiked(series, 512, seed=1)
    matrix = np.random.default_rng(0).normal(size=(160, 160))
    with open_store(folder) as store:
        writer = store.begin_run("live")
        writer.write_structure(data.structure())
        orders.send(writer.run.id)
        times: list[float] = []
        for step in range(10_000_000):
            begin, clock = time.thread_time(), time.monotonic()
            for _ in range(20):
                matrix = np.tanh(matrix @ matrix)
            (record,) = data.records(step, step + 1)
            writer.write([record])
            writer.maintain()
            times.append(time.thread_time() - begin)
            if orders.poll(max(0.0, period_s - (time.monotonic() - clock))):
                if orders.recv() == "stop":
                    break
                orders.send((step, times))
                times = []
        writer.close()
