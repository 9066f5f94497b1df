"""What a store refuses waits in order, in memory and then in a file, and what finds no room is counted exactly."""

import logging
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from mindscope.storage import Event, MemoryStore, QueueWriter, StepRecord, StoreUnavailable, Structure, open_store
from mindscope.storage.writing.backlog import Backlog, Batch, in_batches
from mindscope.storage.writing.losses import Losses
from mindscope.storage.writing.retrying_writer import RetryingWriter

from tests.storage.samples import bits, finding, layout, walk


class Refusing:
    """A writer of memory that refuses what it is given while it is told to."""

    def __init__(self, store: MemoryStore) -> None:
        self._writer = store.begin_run("refusing")
        self.error: Exception | None = None
        self.attempts: list[float] = []
        self.clock = 0.0

    def __getattr__(self, name: str):
        return getattr(self._writer, name)

    def write(self, *arguments) -> None:
        self.attempts.append(self.clock)
        self._check()
        self._writer.write(*arguments)

    def write_structure(self, structure: Structure) -> None:
        self._check()
        self._writer.write_structure(structure)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def batches(count: int) -> list[Batch]:
    return [Batch((record,)) for record in walk(count, layout(10))]


def test_a_backlog_returns_its_batches_in_order_and_bit_for_bit() -> None:
    given = batches(20)
    backlog = Backlog(memory_bytes=4 * given[0].size, file_bytes=1 << 20)
    assert all(backlog.append(batch) for batch in given)
    assert backlog._in_file > 10
    for batch in given:
        assert backlog.first_step() == batch.records[0].step
        assert bits(backlog.oldest()) == bits(batch)
        backlog.drop_oldest()
    assert not backlog
    assert (backlog._used, backlog._end, backlog._file) == (0, 0, None)


def test_a_full_backlog_refuses_records_and_no_structure() -> None:
    given = batches(20)
    backlog = Backlog(memory_bytes=2 * given[0].size + 1, file_bytes=0)
    taken = [backlog.append(batch) for batch in given]
    assert 1 <= sum(taken) <= 3
    assert taken == sorted(taken, reverse=True)
    assert backlog.append(Batch(structure=Structure()))


def test_batches_have_64_records_and_the_last_has_the_earlier_ones() -> None:
    records = walk(130, layout(1))
    made = list(in_batches(records, records[:2]))
    assert [len(batch.records) for batch in made] == [64, 64, 2]
    assert [len(batch.earlier) for batch in made] == [0, 0, 2]
    assert [len(batch.earlier) for batch in in_batches((), records[:2])] == [2]


def test_a_batch_that_the_store_took_without_an_answer_is_not_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast_retries: None
) -> None:
    with open_store(tmp_path) as store:
        run = store.begin_run("doubt", run_id="doubt")
        write, answers = run.write, iter([True, False])

        def write_without_answer(*arguments) -> None:
            last = run._last
            write(*arguments)
            if not next(answers, True):
                run._last = last  # the writer does not know either
                raise StoreUnavailable("the connection was cut during the commit")

        monkeypatch.setattr(run, "write", write_without_answer)
        queue = QueueWriter(run)
        for record in walk(20, layout(2)):
            queue.put(record)
            if record.step % 5 == 0:
                assert queue.flush()
        assert queue.close()
        assert (queue.fault, queue.lost) == (None, 0)
        assert [one.step for one in store.replay("doubt")] == list(range(20))


def test_losses_are_told_by_count_steps_and_sites() -> None:
    losses = Losses()
    assert losses.take() == {}
    losses.add(walk(7, layout(3), first=5), "OSError: no")
    data = losses.take()
    assert data == {"count": 7, "first": 5, "last": 11, "sites": 3, "error": "OSError: no"}
    assert losses.take() == {}
    assert losses.total == 7


def test_losses_whose_event_is_lost_are_told_again() -> None:
    losses = Losses()
    losses.add(walk(4, layout(3)))
    (record,) = walk(1, layout(3), first=9)
    losses.add((replace(record, events=(Event("observations_lost", 4, data=losses.take()),)),))
    assert losses.take() == {"count": 5, "first": 0, "last": 9, "sites": 3}
    assert losses.total == 5


def test_a_refusing_store_is_asked_after_1_2_4_and_then_every_5_seconds(caplog: pytest.LogCaptureFixture) -> None:
    refusing = Refusing(MemoryStore())
    writer = RetryingWriter(refusing, clock=lambda: refusing.clock)
    refusing.error = StoreUnavailable("locked")
    with caplog.at_level(logging.WARNING):
        for record in walk(25, layout(2)):
            writer.write((record,), ())
            refusing.clock += 1.0
        writer.make_room()  # succeeds, and says nothing about records
        assert "can be written again" not in caplog.text
        refusing.error = None
        refusing.clock += 5.0
        writer.write((), ())
        writer.do_housekeeping(lambda: False)
    assert refusing.attempts[:7] == [0.0, 1.0, 3.0, 7.0, 12.0, 17.0, 22.0]
    assert writer.written == 25
    assert [message.split(": ", 1)[1] for message in caplog.messages] == [
        "the store cannot be written, observations wait for it: locked",
        "the store can be written again",
    ]


def test_housekeeping_that_fails_is_told_once_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    refusing = Refusing(MemoryStore())
    tried = []

    def maintain() -> bool:
        tried.append(refusing.clock)
        raise OSError("no room")

    refusing.maintain = maintain  # type: ignore[method-assign]
    writer = RetryingWriter(refusing, clock=lambda: refusing.clock)
    with caplog.at_level(logging.WARNING):
        for record in walk(100, layout(2)):
            writer.write((record,), ())
            writer.do_housekeeping(lambda: False)
            refusing.clock += 1.0
    assert writer.written == 100
    assert [one - tried[0] for one in tried] == [0.0, 30.0, 60.0, 90.0]
    assert [message.split(": ", 1)[1] for message in caplog.messages] == [
        "housekeeping of the store failed and is tried again later: no room"
    ]


def test_structures_and_findings_wait_with_the_records(fast_retries: None) -> None:
    store = MemoryStore()
    refusing = Refusing(store)
    refusing.error = StoreUnavailable("no answer")
    writer = RetryingWriter(refusing)
    writer.write_structure(Structure(subjects=("first",)))
    for record in walk(3, layout(2)):
        writer.write((record,), (finding(record.step),))
    writer.write_structure(Structure(subjects=("second",)))
    refusing.error = None
    time.sleep(0.05)
    writer.write(walk(1, layout(2), first=3), ())
    run = writer.run.id
    assert [one.step for one in store.replay(run)] == [0, 1, 2, 3]
    assert [one.first_step for one in store.findings(run)] == [0, 1, 2]
    (former,) = store.former_structures(run)
    assert (former.structure.subjects, store.structure(run).subjects) == (("first",), ("second",))
    assert former.step == 2


def test_beyond_the_bound_what_is_lost_is_counted_exactly(fast_retries: None) -> None:
    store = MemoryStore()
    refusing = Refusing(store)
    refusing.error = StoreUnavailable("no answer")
    records = walk(600, layout(5))
    backlog = Backlog(memory_bytes=30_000, file_bytes=60_000)
    queue = QueueWriter(refusing, backlog=backlog, more_bytes=20_000)
    for record in records[:500]:
        queue.put(record)
        time.sleep(0.0005)
    assert queue.flush()
    assert 100 < queue.lost < 500
    refusing.error = None
    for record in records[500:]:
        queue.put(record)
        assert queue.flush()
    assert queue.close()
    kept = [one.step for one in store.replay(queue.run.id)]
    missing = sorted(set(range(600)) - set(kept))
    assert kept == sorted(set(kept))
    assert len(missing) == queue.lost
    told = [one.data for one in store.events(queue.run.id, kind="observations_lost")]
    assert sum(data["count"] for data in told) == queue.lost
    assert (min(data["first"] for data in told), max(data["last"] for data in told)) == (missing[0], missing[-1])
    assert {data["sites"] for data in told} == {5}


def test_a_training_is_not_slowed_by_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindscope.storage.writing.retrying_writer._HANGING_S", 0.05)
    store = MemoryStore()
    refusing, gate = Refusing(store), threading.Event()
    monkeypatch.setattr(refusing, "_check", lambda: gate.wait(30))
    queue = QueueWriter(refusing)
    slowest = 0.0
    for record in walk(1000, layout(2)):
        begin = time.perf_counter()
        queue.put(record)
        slowest = max(slowest, time.perf_counter() - begin)
    assert slowest < 2.0  # one wait for room until the store is known not to answer
    assert queue.lost == 0
    gate.set()
    assert queue.close()
    assert [one.step for one in store.replay(queue.run.id)] == list(range(1000))


def test_a_run_ends_within_5_seconds_and_says_what_was_not_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mindscope.storage.writing.retrying_writer.CLOSING_S", 0.2)
    store = MemoryStore()
    refusing = Refusing(store)
    queue = QueueWriter(refusing)
    queue.put(StepRecord(0, 0.0))
    assert queue.flush()
    refusing.error = StoreUnavailable("no answer")
    for record in walk(12, layout(2), first=1):
        queue.put(record)
    assert queue.close()
    assert queue.lost == 12
    assert "12 records of steps 1 to 12 were not written: no answer" in caplog.text
    refusing.error = None


def test_a_disk_that_hangs_does_not_hold_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mindscope.storage.writing.queue_writer._SILENCE_S", 0.3)
    refusing, gate = Refusing(MemoryStore()), threading.Event()
    monkeypatch.setattr(refusing, "_check", lambda: gate.wait(30))
    queue = QueueWriter(refusing)
    for record in walk(9, layout(2)):
        queue.put(record)
    begin = time.monotonic()
    assert queue.close(timeout=30) is False
    assert time.monotonic() - begin < 3
    assert "9 records of steps 0 to 8 are not written" in caplog.text
    gate.set()
    assert queue.close()


def test_a_slow_store_that_answers_is_given_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindscope.storage.writing.queue_writer._SILENCE_S", 0.4)
    store = MemoryStore()
    refusing = Refusing(store)
    monkeypatch.setattr(refusing, "_check", lambda: time.sleep(0.15))
    queue = QueueWriter(refusing)
    for number in range(8):
        queue.put_structure(Structure(subjects=(str(number),)))
        queue.put(StepRecord(number, 0.0, scalars={"loss": 1.0}))
    assert queue.close(timeout=30)
    assert len(list(store.replay(queue.run.id))) == 8


_SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))


class Server:
    """A PostgreSQL server of this test alone, which can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        self._bin, self._data = _SERVERS[-1].parent, folder / "data"
        self._as = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "postgres", "--no-sync")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        self._run("pg_ctl", "-D", str(self._data), "-o", options, "-l", f"{self._data}.log", "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._bin / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")


@contextmanager
def private_server() -> Iterator[Server]:
    if not _SERVERS or (os.geteuid() == 0 and shutil.which("runuser") is None):
        pytest.skip("there are no programs of a PostgreSQL server")
    folder = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    folder.chmod(0o777)
    server = Server(folder)
    try:
        server.start()
        yield server
    finally:
        with suppress(subprocess.CalledProcessError):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_server_that_is_stopped_and_started_costs_nothing(fast_retries: None) -> None:
    pytest.importorskip("psycopg")
    with private_server() as server:
        store = open_store(f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres")
        queue = QueueWriter(store.begin_run("restart", run_id="restart"))
        records = walk(600, layout(5))
        for number, record in enumerate(records):
            if number == 150:
                server.stop()
            if number == 450:
                assert isinstance(queue.fault, StoreUnavailable)
                server.start()
            begin = time.perf_counter()
            queue.put(record)
            assert time.perf_counter() - begin < 2.0
            time.sleep(0.004)
        assert queue.close()
        assert (queue.fault, queue.lost) == (None, 0)
        store.close()
        with open_store(store.url) as reader:
            assert [one.step for one in reader.replay("restart")] == list(range(600))
            assert not reader.events("restart", kind="observations_lost")
