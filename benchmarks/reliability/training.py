"""A training that puts records into a store while something happens to it, and what came of them."""

import random
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from mindscope.storage import Block, Event, Layout, QueueWriter, StepRecord, Store, StoreError, quantize

_STATISTICS: Final = ("l2_norm", "mean", "std")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the records of some trainings.

    Args:
        put: Records that the trainings have put.
        stored: Of these, how many are read back as they were put.
        mixed: Records that are read back and are not what was put, once.
        counted: Records that the writers count as lost.
        uncounted: Records that are missing beyond these, or were counted and are there.
        reported: Records that the events of the runs report as lost.
        away_s: Seconds for which the store was away.
    """

    put: int
    stored: int
    mixed: int
    counted: int
    uncounted: int
    reported: int
    away_s: float


def total(outcomes: list[Outcome]) -> dict[str, float]:
    """Return the sums over outcomes, by name."""
    return {name: sum(asdict(one)[name] for one in outcomes) for name in Outcome.__slots__}


def made_record(seed: int, step: int, sites: int) -> StepRecord:
    """Return a record that its arguments alone decide."""
    layout = Layout("activation", tuple(f"layer.{at}" for at in range(sites)), _STATISTICS, ("float32",) * 3)
    values = np.random.default_rng((seed, step)).normal(size=(sites, 3))
    events = (Event("note", step),) if step % 7 == 0 else ()
    blocks, scalars = (Block(layout, values),), {"loss": 1 / (step + 1)}
    return StepRecord(step, float(step), blocks=blocks, scalars=scalars, events=events)


class Training:
    """Puts records into a queue from a thread of its own; their values tell the run, the step and the site."""

    def __init__(self, store: Store, name: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._values = np.random.default_rng(seed)
        self.writer = store.begin_run(name)
        self.queue = QueueWriter(self.writer)
        self.records: list[StepRecord] = []
        self._sites = 20  # of all alike: a record in a foreign stream would be read without an error
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin to train."""
        self._thread.start()

    def finish(self) -> None:
        """End the training and its run."""
        self._is_over.set()
        self._thread.join()
        self.queue.close()

    def _run(self) -> None:
        layouts: list[Layout] = []
        while not self._is_over.is_set():
            if len(self.records) % 40 == 0:  # a new subject is a new stream
                subject = f"subject_{len(layouts)}"
                sites = tuple(f"{self.writer.run.name}.{at}" for at in range(self._sites))
                layouts.append(Layout(subject, sites, _STATISTICS, ("float32",) * 3))
            step = len(self.records)
            blocks = tuple(Block(each, self._values.normal(size=(self._sites, 3))) for each in layouts[-3:])
            events = (Event("note", step),) if step % 7 == 0 else ()
            record = StepRecord(step, time.time(), blocks=blocks, scalars={"loss": 1 / (step + 1)}, events=events)
            self.records.append(record)
            self.queue.put(record)
            time.sleep(self._random.uniform(0.001, 0.02))


def compared(store: Store, trainings: tuple[Training, ...], away_s: float) -> Outcome:
    """Compare the records that runs replay with those that were put, bit for bit."""
    put = stored = mixed = counted = reported = uncounted = 0
    for training in trainings:
        run = training.writer.run.id
        known = {record.step: bits(record) for record in training.records}
        read: list[tuple[int, object]] = []
        losses: tuple[Event, ...] = ()
        with suppress(StoreError):  # a run that is gone or cannot be read is missing
            read += ((record.step, bits(record)) for record in store.replay(run))
            losses = store.events(run, kind="observations_lost")
        same = sum(known.get(step) == found for step, found in read)
        put += len(known)
        stored += same
        mixed += len(read) - same
        counted += training.queue.lost
        reported += sum(int(str(event.data["count"])) for event in losses)
        uncounted += abs(len(known) - same - training.queue.lost)
    return Outcome(put, stored, mixed, counted, uncounted, reported, round(away_s, 2))


def bits(record: StepRecord) -> tuple[object, ...]:
    """Return what a record holds, exactly."""
    blocks = {block.layout: quantize(block).values.tobytes() for block in record.blocks}
    events = tuple(event.kind for event in record.events if event.kind == "note")
    return record.time, blocks, dict(record.scalars), events
