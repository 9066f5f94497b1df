"""A PostgreSQL server that is killed costs no record that was not counted, and mixes no runs."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from mindscope.storage import QueueWriter, StoreUnavailable, Structure, open_store

from benchmarks.private_postgres import LAZY, PrivateServer, binaries
from benchmarks.reliability.postgres_crashes import crash
from tests.storage.samples import layout, walk

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed here, so none can be killed")
    with PrivateServer(LAZY) as started:
        yield started


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_in_the_middle_loses_only_what_is_counted_and_mixes_no_runs(server: PrivateServer, seed: int) -> None:
    outcome = crash(server, seed)
    assert (outcome.mixed, outcome.uncounted) == (0, 0)
    assert outcome.reported == outcome.counted
    assert outcome.stored > 0


def test_acknowledged_records_are_written_again_after_a_crash(server: PrivateServer) -> None:
    records = walk(60, layout(8), layout(5, "gradient"))
    with open_store(server.url) as store:
        writer = store.begin_run("again")
        writer.write_structure(Structure(subjects=("gradient",)))
        for at in range(0, 40, 4):
            writer.write(records[at : at + 4])
        writer.preview(records[40])
        server.crash()
        server.start()
        writer.write(records[40:])
        assert writer.take_missing() is None
        writer.close()
        assert [record.step for record in store.replay(writer.run.id)] == list(range(60))
        assert store.structure(writer.run.id).subjects == ("gradient",)
        assert len(store.events(writer.run.id)) == sum(len(record.events) for record in records)


def test_records_of_the_last_transactions_survive_a_crash_before_the_end_of_the_run(server: PrivateServer) -> None:
    with open_store(server.url) as store:
        writer = store.begin_run("end")
        writer.write(walk(30, layout(4)))
        server.crash()
        server.start()
        writer.close()
        assert store.find_run(writer.run.id).state == "finished"
        assert len(list(store.replay(writer.run.id))) == 30


@pytest.fixture
def failing_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it to let the next commit fail after the server has done it, as when the answer does not arrive."""
    commit = psycopg.Connection.commit

    def failing(connection: psycopg.Connection) -> None:
        monkeypatch.undo()
        commit(connection)
        raise psycopg.OperationalError("the answer did not arrive")

    return lambda: monkeypatch.setattr(psycopg.Connection, "commit", failing)


def test_a_commit_whose_answer_is_lost_is_not_counted(
    server: PrivateServer, failing_commit: Callable[[], None]
) -> None:
    with open_store(server.url) as store:
        queue = QueueWriter(writer := store.begin_run("doubt"))
        for record in walk(30, layout(4)):
            if record.step in (10, 20):
                failing_commit()
            queue.put(record)
            assert queue.flush()
        assert queue.close()
        assert queue.lost == 0
        assert [record.step for record in store.replay(writer.run.id)] == list(range(30))


def test_records_that_come_again_after_a_doubtful_commit_are_stored_once(
    server: PrivateServer, failing_commit: Callable[[], None]
) -> None:
    records = walk(20, layout(4))
    with open_store(server.url) as store:
        writer = store.begin_run("twice")
        failing_commit()
        with pytest.raises(StoreUnavailable, match="did not arrive"):
            writer.write(records[:10])
        writer.write(records[:10])
        writer.write(records[10:])
        assert writer.take_missing() is None
        writer.close()
        assert [record.step for record in store.replay(writer.run.id)] == list(range(20))


def test_a_server_that_was_set_back_makes_the_writer_count_what_is_missing(server: PrivateServer) -> None:
    records = walk(40, layout(4))
    with open_store(server.url) as store:
        queue = QueueWriter(writer := store.begin_run("back"))
        for begin in (0, 10, 20):
            for record in records[begin : begin + 10]:
                queue.put(record)
            queue.put_structure(Structure(subjects=(f"from {begin}",)))  # waits for the disk
            assert queue.flush()
            if begin == 0:
                before = _claim(server, "commits, records, (SELECT data FROM ledger ORDER BY recording DESC LIMIT 1)")
        _set_back(server, before)
        for record in records[30:]:
            queue.put(record)
        assert queue.close()
        assert queue.lost == 20
        (event,) = store.events(writer.run.id, kind="observations_lost")
        assert (event.data["count"], event.data["first"], event.data["last"]) == (20, 10, 29)
        assert [record.step for record in store.replay(writer.run.id)] == [*range(10), *range(30, 40)]


def _claim(server: PrivateServer, columns: str) -> tuple[int | str, ...]:
    with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        row = connection.execute(f"SELECT {columns} FROM writer_claim ORDER BY recording DESC LIMIT 1").fetchone()
    assert row is not None
    return row


def _set_back(server: PrivateServer, claim: tuple[int | str, ...]) -> None:
    """Bring the newest recording to a former state, as a copy of the database does that is put back."""
    (number,) = _claim(server, "recording")
    with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        connection.execute(
            "DELETE FROM hot USING stream WHERE hot.stream = stream.id AND recording = %s AND step >= 10", [number]
        )
        for table in ("histogram", "event"):
            connection.execute(f"DELETE FROM {table} WHERE recording = %s AND step >= 10", [number])
        connection.execute("UPDATE recording SET last_step = 9 WHERE id = %s", [number])
        *claimed, ledger = claim
        changed = "UPDATE writer_claim SET commits = %s, records = %s WHERE recording = %s"
        connection.execute(changed, [*claimed, number])
        connection.execute("UPDATE ledger SET data = %s WHERE recording = %s", [ledger, number])


def test_a_writer_whose_rank_was_taken_over_writes_nothing_more(server: PrivateServer) -> None:
    with open_store(server.url) as store, open_store(server.url) as other:
        writer = store.begin_run("taken")
        writer.write(walk(5, layout(4)))
        (number,) = _claim(server, "recording")
        with psycopg.connect(server.url.replace("+psycopg", "")) as connection:  # as if this process were dead
            connection.execute("UPDATE recording SET writer = '' WHERE id = %s", [number])
        second = other.begin_run("taken", run_id=writer.run.id)
        with pytest.raises(StoreUnavailable, match="written by another process"):
            writer.write(walk(5, layout(4), first=5))
        second.write(walk(5, layout(4), first=5, seed=1))
        second.close()
        assert len(list(other.replay(second.run.id))) == 10


def test_lost_records_that_the_server_refuses_are_counted_and_the_run_goes_on(server: PrivateServer) -> None:
    records = walk(30, layout(4))
    with open_store(server.url) as store:
        writer = store.begin_run("refused")
        writer.write(records[:10])  # waits for the disk: its streams are new
        writer.write(records[10:20])
        server.crash()
        server.start()
        (number,) = _claim(server, "recording")
        with psycopg.connect(server.url.replace("+psycopg", "")) as connection:  # rows in the way of the lost ones
            columns = "micro_step, time, codec, data"
            connection.execute(
                f"INSERT INTO hot (stream, step, {columns}) SELECT stream, 10, {columns} FROM hot JOIN stream ON "
                "stream.id = hot.stream WHERE recording = %s AND step = 0",
                [number],
            )
        writer.write(records[20:])
        missing = writer.take_missing()
        assert (missing.count, missing.first_step, missing.last_step) == (10, 10, 19)
        writer.close()
        assert store.find_run(writer.run.id).last_step == 29
