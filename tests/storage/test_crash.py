"""A run file survives what happens to machines: kill -9, full disks, forks, deleted and damaged files."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from mindscope.storage import (
    FormerStructure,
    QueueWriter,
    RunNotFound,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
    Structure,
    migrate,
    open_store,
)
from mindscope.storage.writing.record_queue import CAPACITY

from tests.storage.disks import small_disk
from tests.storage.samples import layout, walk

_WRITE = """
import sys
from mindscope.storage import QueueWriter, open_store
from tests.storage.samples import layout, walk
queue = QueueWriter(open_store(sys.argv[1]).begin_run("crash", run_id="crash"))
for seed in range(1000):
    for record in walk(100, layout(30), first=seed * 100, seed=seed):
        queue.put(record)
        print(record.step, flush=True)
"""


def run_file(folder: Path, run: str = "crash") -> Path:
    return folder / f"{run}.rank0.db"


def integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()


def test_the_documented_loss_is_the_capacity_of_the_queue() -> None:
    assert CAPACITY == 64


@pytest.mark.parametrize("seed", range(6))
def test_kill_9_loses_at_most_the_queue(tmp_path: Path, seed: int) -> None:
    last = random.Random(seed).randint(20, 900)
    runs, copy = tmp_path / "runs", tmp_path / "copy"
    child = subprocess.Popen([sys.executable, "-c", _WRITE, str(runs)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged = next(step for step in map(int, child.stdout) if step >= last)
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split()
    child.wait()
    child.stdout.close()
    # What stands between two line ends was printed whole; a torn last number is smaller than the one before it.
    acknowledged = max([acknowledged, *map(int, rest)])
    shutil.copytree(runs, copy)
    assert integrity(run_file(copy)) == "ok"
    with open_store(runs) as store:
        assert store.find_run("crash").state == "crashed"
        steps = [record.step for record in store.replay("crash")]
        assert steps == list(range(len(steps)))
        assert len(steps) >= acknowledged + 1 - CAPACITY
        writer = store.begin_run("crash", run_id="crash")
        writer.write(walk(300, layout(30), first=len(steps)))
        writer.close()
        assert store.find_run("crash").last_step == len(steps) + 299
        assert store.series("crash", "layer.9", "activation/min", limit=10**6).total > 250


def test_a_full_disk_costs_nothing_when_there_is_room_again(tmp_path: Path, fast_retries: None) -> None:
    records = walk(300, layout(300))
    with small_disk(tmp_path / "disk") as disk, open_store(disk / "runs") as store:
        queue = QueueWriter(store.begin_run("full", run_id="full"))
        (disk / "other").write_bytes(bytes(8 << 20))
        for record in records[:250]:
            queue.put(record)
        assert queue.flush()
        assert isinstance(queue.fault, StoreUnavailable)
        written = store.find_run("full").last_step
        assert written < 249
        (disk / "other").unlink()
        for record in records[250:]:
            queue.put(record)
        assert queue.close()
        assert (queue.fault, queue.lost) == (None, 0)
        assert integrity(run_file(disk / "runs", "full")) == "ok"
        assert store.find_run("full").state == "finished"
        assert [one.step for one in store.replay("full")] == list(range(300))
        assert not store.events("full", kind="observations_lost")


def test_a_run_ends_on_a_disk_without_a_free_byte(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, open_store(disk / "runs") as store:
        queue = QueueWriter(store.begin_run("full", run_id="full"))
        for record in walk(20, layout(300)):
            queue.put(record)
        assert queue.flush()
        with suppress(OSError), (disk / "other").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert queue.close("failed", "no space left on device")
        assert store.find_run("full").state == "failed"
        assert len(list(store.replay("full"))) == 20


def test_a_disk_that_fills_to_the_last_byte_leaves_a_whole_file(tmp_path: Path) -> None:
    program = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from mindscope.storage import QueueWriter, open_store
from tests.storage.samples import layout, walk
store = open_store(sys.argv[1])
queue = QueueWriter(store.begin_run("crash", run_id="crash"))
resource.setrlimit(resource.RLIMIT_FSIZE, (2_500_000, resource.RLIM_INFINITY))
for record in walk(400, layout(300)):
    queue.put(record)
queue.flush()
print(queue.lost, type(queue.fault).__name__)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
queue.close()
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "StoreUnavailable"]
    assert integrity(run_file(tmp_path)) == "ok"
    with open_store(tmp_path) as store:
        assert store.find_run("crash").state == "finished"
        assert len(list(store.replay("crash"))) == 400


def test_a_deleted_file_stops_the_writing_and_not_the_training(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    queue = QueueWriter(store.begin_run("gone", run_id="gone"))
    records = walk(20, layout(3))
    queue.put(records[0])
    assert queue.flush()
    run_file(tmp_path, "gone").unlink()
    for record in records[1:]:
        queue.put(record)
    assert queue.flush()
    assert queue.lost == 19
    assert isinstance(queue.fault, StoreUnavailable)
    assert "was deleted" in str(queue.fault)
    assert queue.close()
    store.close()


def test_a_locked_file_costs_nothing(tmp_path: Path, fast_retries: None) -> None:
    store = open_store(tmp_path)
    writer = store.begin_run("locked", run_id="locked")
    with writer._target.engine.connect() as connection:  # a test need not wait for the usual five seconds
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA busy_timeout = 50")
        connection.exec_driver_sql("BEGIN")
    queue = QueueWriter(writer)
    other = sqlite3.connect(run_file(tmp_path, "locked"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    records = walk(1000, layout(3))
    for record in records[:5]:
        queue.put(record)
    assert queue.flush()
    assert "locked" in str(queue.fault)
    slowest = 0.0
    for record in records[5:]:
        begin = time.perf_counter()
        queue.put(record)
        slowest = max(slowest, time.perf_counter() - begin)
    assert slowest < 0.5  # a put that waited for room would take as long as the lock
    other.execute("ROLLBACK")
    other.close()
    assert queue.close()
    assert (queue.fault, queue.lost) == (None, 0)
    assert [one.step for one in store.replay("locked")] == list(range(1000))
    assert not store.events("locked", kind="observations_lost")
    store.close()


def test_in_a_forked_child_the_writer_is_inert_and_the_store_reads(tmp_path: Path) -> None:
    program = """
import os, sys
from mindscope.storage import QueueWriter, StoreError, open_store
from tests.storage.samples import layout, walk
store = open_store(sys.argv[1])
queue = QueueWriter(store.begin_run("crash", run_id="crash"))
records = walk(20, layout(3))
for record in records[:10]:
    queue.put(record)
queue.flush()
assert len(list(store.replay("crash"))) == 10
child = os.fork()
if child == 0:
    for record in records[10:]:
        queue.put(record)
    assert queue.flush() and queue.close()
    assert len(list(store.replay("crash"))) == 10
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
for record in records[10:]:
    queue.put(record)
queue.close()
assert len(list(store.replay("crash"))) == 20
print(store.find_run("crash").state)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("finished", 0), done.stderr
    assert integrity(run_file(tmp_path)) == "ok"


def test_a_second_process_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    program = """
import sys
from mindscope.storage import StoreUnavailable, open_store
try:
    open_store(sys.argv[1]).begin_run("crash", run_id="crash")
except StoreUnavailable as error:
    print(error)
"""
    with open_store(tmp_path) as store:
        writer = store.begin_run("crash", run_id="crash")
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
        )
        assert f"is being written by process {os.getpid()}" in done.stdout
        writer.close()


def test_a_reader_sees_whole_steps_while_they_are_written(tmp_path: Path) -> None:
    records = walk(700, layout(12), layout(12, "gradient"))
    with open_store(tmp_path) as store, open_store(tmp_path) as reader:
        queue = QueueWriter(store.begin_run("live", run_id="live"))
        seen = 0
        for at, record in enumerate(records):
            queue.put(record)
            if at % 40 == 0:
                read = list(reader.replay("live", limit=64))
                assert all(len(one.blocks) == 2 for one in read)
                assert not read or read[-1].step >= seen
                seen = read[-1].step if read else 0
                assert reader.series("live", "", "scalar/loss").total <= at + 1
        queue.close()
        assert seen > 0
        assert reader.find_run("live").last_step == 699


def finished(folder: Path) -> Path:
    with open_store(folder) as store:
        writer = store.begin_run("crash", run_id="crash")
        writer.write(walk(5, layout(3)))
        writer.close()
    return run_file(folder)


def test_one_run_file_is_a_store_of_its_own(tmp_path: Path) -> None:
    path = shutil.copy(finished(tmp_path / "runs"), tmp_path)
    with open_store(path) as store:
        assert [one.id for one in store.runs()] == ["crash"]
        assert len(list(store.replay("crash"))) == 5
        with pytest.raises(StoreUnavailable, match="open its folder"):
            store.begin_run("more")


def test_media_that_cannot_be_written_are_read(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        finished(disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with open_store(disk) as store:
            assert store.runs()[0].state == "finished"
            assert len(list(store.replay("crash"))) == 5
            with pytest.raises(StoreUnavailable, match="check that it exists and may be written"):
                store.begin_run("more")
            with pytest.raises(StoreUnavailable):
                store.annotate("crash", remark="never")


def test_a_newer_schema_is_refused_by_its_number(tmp_path: Path) -> None:
    path = finished(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.commit()
    connection.close()
    with (
        open_store(tmp_path) as store,
        pytest.raises(StoreTooNew, match="schema version 99, this mindscope reads up"),
    ):
        store.series("crash", "", "scalar/loss")
    with open_store(tmp_path) as store, pytest.raises(StoreTooNew):
        store.begin_run("crash", run_id="crash")
    with pytest.raises(StoreTooNew):
        migrate(tmp_path)


def test_a_store_from_before_former_structures_were_kept_is_read_and_written_on(tmp_path: Path) -> None:
    path = finished(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE former_structure")
    connection.execute("UPDATE meta SET value = '2' WHERE key = 'schema_version'")
    connection.commit()
    connection.close()
    with open_store(tmp_path) as store:
        assert store.former_structures("crash") == ()
        writer = store.begin_run("crash", run_id="crash")
        writer.write_structure(Structure(subjects=("gradient",)))
        writer.write_structure(Structure(subjects=("weight",)))
        writer.close()
    with open_store(tmp_path) as store:
        assert store.former_structures("crash") == (FormerStructure(4, 0, Structure(subjects=("gradient",))),)


def test_one_run_of_a_newer_schema_does_not_hide_the_others(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with open_store(tmp_path) as store:
            writer = store.begin_run(f"{name} run", run_id=name)
            writer.write(walk(3, layout(2)))
            writer.close()
    connection = sqlite3.connect(run_file(tmp_path, "new"))
    connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.commit()
    connection.close()
    (tmp_path / "catalogue.db").unlink(missing_ok=True)
    with open_store(tmp_path) as store:
        assert [run.id for run in store.runs()] == ["old"]
        assert store.find_run("old run").id == store.find_run("latest").id == "old"
        with pytest.raises(RunNotFound, match=r"no run 'new run'.*cannot be read: .*new\.rank0\.db has schema version"):
            store.find_run("new run")
        with pytest.raises(StoreTooNew, match=r"new\.rank0\.db has schema version 99"):
            store.find_run("new")


@pytest.mark.parametrize("harm", ["header", "middle", "empty"])
def test_a_damaged_file_says_so_and_does_not_hide_the_others(tmp_path: Path, harm: str) -> None:
    path = finished(tmp_path)
    with open_store(tmp_path) as store:
        store.begin_run("good", run_id="good").close()
    data = bytearray(path.read_bytes())
    data[slice(0, 100) if harm == "header" else slice(8192, len(data))] = random.Random(0).randbytes(
        100 if harm == "header" else len(data) - 8192
    )
    path.write_bytes(b"" if harm == "empty" else data)
    with open_store(tmp_path) as store:
        assert [one.id for one in store.runs()] == ["good"]
        with pytest.raises(StoreDamaged, match=r"crash\.rank0\.db"):
            list(store.replay("crash"))


def test_a_folder_whose_runs_are_all_damaged_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run_file(tmp_path, name).write_bytes(random.Random(0).randbytes(20_000))
    with open_store(tmp_path) as store:
        for ask in (store.runs, lambda: store.find_run("latest")):
            with pytest.raises(StoreDamaged, match=r"two\.rank0\.db.*one\.rank0\.db") as told:
                ask()
            assert "\n" not in str(told.value)
        with pytest.raises(StoreDamaged, match=r"one\.rank0\.db"):
            store.find_run("one")


def test_a_file_that_is_just_being_made_is_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = run_file(tmp_path, "young")
    path.touch()
    with open_store(tmp_path) as store:
        assert store.runs() == ()
        assert not caplog.records
        os.utime(path, (0, 0))
        with pytest.raises(StoreDamaged, match="first transaction was never finished"):
            store.runs()


def test_a_store_of_today_needs_no_migration_and_an_empty_folder_none(tmp_path: Path) -> None:
    finished(tmp_path / "runs")
    assert migrate(tmp_path / "runs") == []
    assert migrate("memory:") == []
    with open_store(tmp_path / "nothing") as store:
        assert store.runs() == ()
