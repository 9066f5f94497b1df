"""The queue between training and store: nothing it meets may stop the training."""

import math
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from mindscope.storage import (
    Block,
    Finding,
    MemoryStore,
    ModuleInfo,
    QueueWriter,
    StepRecord,
    StoreError,
    Structure,
    open_store,
)
from mindscope.storage.errors import StoreGone
from mindscope.storage.records import joined
from mindscope.storage.writing.record_queue import RecordQueue
from mindscope.storage.writing.retrying_writer import RetryingWriter

from tests.storage.samples import finding, layout, walk


class Listening:
    """Remembers what it saw; finds something at every tenth step and at the end."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.seen: list[StepRecord] = []

    def begin(self, run, structure: Structure) -> None:
        self.begun.append(len(structure.modules))

    def observe(self, record: StepRecord) -> list[Finding]:
        self.seen.append(record)
        return [finding(record.step)] if record.step % 10 == 0 else []

    def end(self) -> list[Finding]:
        return [finding(99, rule="at-the-end")]


class Gate:
    """A writer of memory that waits at a gate, or fails while it is told to."""

    def __init__(self, store: MemoryStore) -> None:
        self._writer = store.begin_run("gate")
        self.open = threading.Event()
        self.entered = threading.Event()
        self.failing: Exception | None = None

    def __getattr__(self, name: str):
        return getattr(self._writer, name)

    def write(self, records, findings=()) -> None:
        self.entered.set()
        assert self.open.wait(30)
        if self.failing is not None:
            raise self.failing
        self._writer.write(records, findings)


def test_listeners_see_what_a_replay_will_give_and_their_findings_are_stored() -> None:
    store, listening = MemoryStore(), Listening()
    queue = QueueWriter(store.begin_run("seen"), [listening])
    records = walk(40, layout(6))
    for record in records:
        queue.put(record)
    assert queue.close()
    for seen, replayed in zip(listening.seen, store.replay(queue.run.id), strict=True):
        assert seen.blocks[0].values.tobytes() == replayed.blocks[0].values.tobytes()
        assert seen.events == replayed.events
    assert [one.step for one in store.findings(queue.run.id)] == [3, 13, 23, 33, 102]
    assert len(queue.findings) == 5
    assert listening.begun == [0]


def test_a_training_that_leaves_no_gap_has_its_records_compacted_and_the_log_written_back(tmp_path) -> None:
    records = walk(5000, layout(40))
    with open_store(tmp_path) as store:
        queue = QueueWriter(store.begin_run("fast"))
        for record in records:
            queue.put(record)
            time.sleep(0.0003)  # several come while a burst is written
        with closing(sqlite3.connect(tmp_path / f"{queue.run.id}.rank0.db")) as connection:
            compacted = connection.execute("SELECT max(first) FROM chunk").fetchone()[0]
        log = (tmp_path / f"{queue.run.id}.rank0.db-wal").stat().st_size
        assert queue.close()
    assert compacted > 4000
    assert log < 32 << 20


def test_a_structure_holds_for_the_records_after_it() -> None:
    store, listening = MemoryStore(), Listening()
    queue = QueueWriter(store.begin_run("structure"), [listening])
    first, second = walk(2, layout(2))
    queue.put_structure(Structure())
    queue.put(first)
    queue.put_structure(Structure(modules=(ModuleInfo("", "Net"),)))
    queue.put(second)
    queue.close()
    assert listening.begun == [0, 1]
    assert store.structure(queue.run.id).modules == (ModuleInfo("", "Net"),)


def test_a_full_queue_blocks_until_there_is_room() -> None:
    gate = Gate(MemoryStore())
    queue = QueueWriter(gate, capacity=4)
    records = walk(12, layout(2))
    for record in records[:4]:
        queue.put(record)
    assert gate.entered.wait(30)
    late = threading.Thread(target=lambda: [queue.put(record) for record in records[4:]])
    late.start()
    assert not queue.flush(0.05)
    assert late.is_alive()
    gate.open.set()
    late.join(30)
    assert queue.close()
    assert queue.lost == 0
    assert queue.run.id


def test_a_training_waits_only_once_for_a_store_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindscope.storage.writing.record_queue._ROOM_WAIT_S", 0.05)
    store = MemoryStore()
    gate = Gate(store)
    queue = QueueWriter(gate, capacity=4)
    records = walk(30, layout(2))
    queue.put(records[0])
    assert gate.entered.wait(30)
    for record in records[1:]:
        queue.put(record)  # without an end to the waiting, the test would stand still here
    assert queue.lost == 26
    gate.open.set()
    assert queue.close()
    assert [one.step for one in store.replay(queue.run.id)] == [0, 27, 28, 29]
    assert sum(one.data["count"] for one in store.events(queue.run.id, kind="observations_lost")) == 26


def test_a_full_queue_may_drop_the_oldest_and_says_how_many() -> None:
    store = MemoryStore()
    gate = Gate(store)
    queue = QueueWriter(gate, capacity=4, when_full="drop")
    records = walk(20, layout(2))
    queue.put(records[0])
    assert gate.entered.wait(30)
    queue.put_structure(Structure(subjects=("weight",)))
    for record in records[1:]:
        queue.put(record)
    assert queue.lost >= 16
    gate.open.set()
    assert queue.close()
    kept = [one.step for one in store.replay(queue.run.id)]
    assert len(kept) == 20 - queue.lost
    assert kept[0] == 0
    assert kept[-1] == 19
    counted = [one.data["count"] for one in store.events(queue.run.id, kind="observations_lost")]
    assert sum(counted) == queue.lost
    assert not any("error" in one.data for one in store.events(queue.run.id, kind="observations_lost"))
    assert store.structure(queue.run.id).subjects == ("weight",)


def test_a_store_that_refuses_for_good_costs_records_until_it_takes_others() -> None:
    store = MemoryStore()
    gate = Gate(store)
    gate.open.set()
    gate.failing = StoreGone("the file was deleted")
    queue = QueueWriter(gate)
    records = walk(6, layout(2))
    for record in records[:3]:
        queue.put(record)
    assert queue.flush()
    assert (queue.lost, queue.fault) == (3, gate.failing)
    gate.failing = None
    for record in records[3:]:
        queue.put(record)
    assert queue.close()
    assert queue.fault is None
    assert [one.step for one in store.replay(queue.run.id)] == [3, 4, 5]
    (told,) = store.events(queue.run.id, kind="observations_lost")
    error = "StoreGone: the file was deleted"
    assert told.data == {"count": 3, "first": 0, "last": 2, "sites": 2, "error": error}


def test_a_listener_that_fails_is_switched_off_and_reported() -> None:
    class Failing(Listening):
        def observe(self, record: StepRecord) -> list[Finding]:
            if record.step == 2:
                raise ZeroDivisionError("division by zero")
            return super().observe(record)

    store, failing, listening = MemoryStore(), Failing(), Listening()
    queue = QueueWriter(store.begin_run("failing"), [failing, listening])
    for record in walk(6, layout(2)):
        queue.put(record)
    queue.close()
    assert [one.step for one in failing.seen] == [0, 1]
    assert [one.step for one in listening.seen] == list(range(6))
    (event,) = store.events(queue.run.id, kind="monitor_fault")
    assert event.data == {"collector": "Failing", "error": "ZeroDivisionError: division by zero"}


@pytest.mark.parametrize(
    "bad",
    [
        StepRecord(1, 0.0, blocks=(Block(layout(2), np.zeros((3, 10))),)),
        StepRecord(0, 0.0, scalars={"loss": 1.0}),
        StepRecord(1, 0.0, scalars={"loss": "high"}),  # type: ignore[dict-item]
    ],
    ids=["wrong shape", "out of order", "not a number"],
)
def test_a_bad_record_is_lost_alone(bad: StepRecord) -> None:
    store = MemoryStore()
    queue = QueueWriter(store.begin_run("bad"))
    for record in (StepRecord(0, 0.0, scalars={"loss": 2.0}), bad, StepRecord(2, 0.0, scalars={"loss": math.inf})):
        queue.put(record)
    assert queue.close()
    assert [one.step for one in store.replay(queue.run.id)] == [0, 2]
    assert queue.lost == 1


def test_a_store_that_hangs_does_not_hold_the_end_of_a_training() -> None:
    gate = Gate(MemoryStore())
    queue = QueueWriter(gate)
    queue.put(StepRecord(0, 0.0))
    assert gate.entered.wait(30)
    assert queue.close(timeout=0.05) is False
    gate.open.set()
    assert queue.close() is True


def test_what_comes_after_the_end_is_ignored() -> None:
    store = MemoryStore()
    queue = QueueWriter(store.begin_run("ended"))
    queue.put(StepRecord(0, 0.0))
    assert queue.close("failed", "ValueError: no")
    queue.put(StepRecord(1, 0.0))
    assert queue.flush()
    assert queue.close()
    assert store.find_run("ended").state == "failed"
    assert store.find_run("ended").last_step == 0


def test_a_queue_needs_room_for_one() -> None:
    with pytest.raises(StoreError, match="capacity of 1 or more, got 0"):
        QueueWriter(MemoryStore().begin_run("none"), capacity=0)


class KeepsTen:
    """Stores what was beside the schedule of the step that a finding is about and of the two before it."""

    def __init__(self) -> None:
        self.kept: list[StepRecord] = []

    def show(self, record):
        return joined(record, record.beside)

    def sort(self, record, findings):
        bare, kept = replace(record, beside=None), self.kept
        if not findings:
            self.kept = [*kept, record.beside][-2:]
            return bare, ()
        self.kept = []
        return joined(record, record.beside), kept

    def rest(self, findings, *, failed):
        return self.kept if failed else ()


@pytest.mark.parametrize(("state", "end"), [("finished", []), ("failed", [11, 12])])
def test_what_is_beside_the_schedule_is_seen_and_stored_only_if_the_keeper_says_so(state, end) -> None:
    store, listening = MemoryStore(), Listening()
    queue = QueueWriter(store.begin_run("kept"), [listening], flight_buffer=KeepsTen())
    for record in walk(13, layout(3)):
        beside = replace(record, scalars={"rate": 1.0}, blocks=(), events=())
        queue.put(replace(record, beside=beside))
    assert queue.close(state)
    assert all(record.scalars["rate"] == 1.0 for record in listening.seen)
    steps = store.series(queue.run.id, "", "scalar/rate").steps.tolist()
    assert steps == [0, 8, 9, 10, *end]


def test_settling_waits_for_the_listeners_and_not_for_the_store() -> None:
    gate, listening = Gate(MemoryStore()), Listening()
    queue = QueueWriter(gate, [listening])
    queue.put_structure(Structure())
    for record in walk(3, layout(2)):
        queue.put(record)
    assert queue.settle(30)
    assert len(listening.seen) == 3
    assert not queue.flush(0.05)
    gate.open.set()
    assert queue.close()
    assert queue.settle(0.0)


@pytest.mark.parametrize(
    ("explanation", "line"),
    [
        ("the weights stand still", "run r: stuck at head since step 3: the weights stand still"),
        ("since step 3 nothing moves", "run r: stuck at head: since step 3 nothing moves"),
        ("step 30 was fine", "run r: stuck at head since step 3: step 30 was fine"),
    ],
    ids=["no step", "that step", "another step"],
)
def test_a_logged_finding_names_its_first_step_once(caplog, explanation: str, line: str) -> None:
    finding = Finding("stuck", "stuck", "warning", 5, 3, "head", "weight/std", {}, explanation, "advice")
    with open_store("memory:") as store:
        writer = RetryingWriter(store.begin_run("r"))
        writer.report([finding, finding])
    assert caplog.messages == [line]


def test_a_full_queue_waits_for_a_writer_whose_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindscope.storage.writing.record_queue._ROOM_WAIT_S", 0.5)
    queue = RecordQueue(1, lambda: True)
    first, second = walk(2, layout(2))
    queue.put(first)

    def work() -> None:
        for _ in range(4):  # pieces of housekeeping, together longer than the wait
            threading.Event().wait(0.2)
            queue.have_worked()
        queue.take()
        queue.have_done(1)

    worker = threading.Thread(target=work)
    worker.start()
    queue.put(second)
    worker.join()
    assert queue.losses.total == 0
    assert queue.ends() == (second, second)
