"""A rank holds at most one connection to PostgreSQL, gives an idle one back, and works through a pooler."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from mindscope.storage import QueueWriter, StoreUnavailable, Structure, open_store
from mindscope.storage.database import postgres_backend

from benchmarks.private_postgres import PrivateServer, as_user, binaries
from tests.storage.samples import finding, layout, walk

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed here, so its connections cannot be limited")
    with PrivateServer({"max_connections": "8"}) as started:
        yield started


def connections(server: PrivateServer) -> int:
    with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        query = "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def test_a_rank_that_writes_reads_and_polls_holds_one_connection(
    server: PrivateServer, eventually: Callable[[Callable[[], bool]], float]
) -> None:
    before = connections(server)
    with open_store(server.url) as store:
        queue = QueueWriter(store.begin_run("one"))
        channel = store.control_channel(queue.run.id)
        most = 0
        for record in walk(200, layout(20)):
            queue.put(record)
            channel.stamp("set")
            store.version(queue.run.id)
            if record.step % 20 == 0:
                most = max(most, connections(server) - before)
        assert queue.close()
        assert queue.lost == 0
        assert most == 1
        assert len(list(store.replay(queue.run.id))) == 200
    eventually(lambda: connections(server) == before)


def test_a_connection_that_is_not_used_is_given_back(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch, eventually: Callable[[Callable[[], bool]], float]
) -> None:
    monkeypatch.setattr(postgres_backend, "_IDLE_S", 0.0)
    before = connections(server)
    with open_store(server.url) as store:
        queue = QueueWriter(store.begin_run("idle"))
        queue.put(walk(1, layout(3))[0])
        assert queue.flush()
        eventually(lambda: connections(server) == before)
        queue.put(walk(1, layout(3), first=1)[0])
        assert queue.close()
        assert queue.lost == 0


def test_a_rank_waits_for_a_connection_when_all_are_in_use(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = server.url.replace("+psycopg", "")
    taken: list[psycopg.Connection] = []
    pauses: list[float] = []

    def free_one(seconds: float) -> None:
        pauses.append(seconds)
        taken.pop().close()

    monkeypatch.setattr(postgres_backend.time, "sleep", free_one)
    with open_store(server.url) as store:
        store.begin_run("before").close()  # and gives its connection back
        with suppress(psycopg.OperationalError):  # too many clients
            while True:
                taken.append(psycopg.connect(plain))
        store.begin_run("waits").close()
        assert pauses[0] < 1.0
    for connection in taken:
        connection.close()


@pytest.fixture
def pooler(server: PrivateServer) -> Iterator[str]:
    """The URL of a pooler that gives every transaction to another connection."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    folder = Path(tempfile.mkdtemp(prefix="mindscope-pgbouncer-"))  # tmp_path is closed to other users
    users = folder / "users.txt"
    users.write_text('"postgres" ""\n')
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\ntest = host=127.0.0.1 port={server.port} dbname=test\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
        f"default_pool_size = 3\nserver_round_robin = 1\nserver_lifetime = 1\nlogfile = {folder / 'log'}\n"
    )
    for path in (folder, users, settings):
        path.chmod(0o777)
    process = subprocess.Popen(
        [*as_user(), program, "-q", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/test"
    finally:
        process.terminate()
        process.wait(timeout=30)
        shutil.rmtree(folder)


def test_ranks_write_and_read_through_a_pooler(pooler: str, eventually: Callable[[Callable[[], bool]], float]) -> None:
    eventually(lambda: _answers(pooler))
    records = walk(600, layout(20), layout(12, "gradient"))
    with open_store(pooler) as store, open_store(pooler) as other:
        writers = [each.begin_run("pooled", run_id="pooled", rank=rank) for rank, each in enumerate((store, other))]
        for writer in writers:
            writer.write_structure(Structure(subjects=("gradient",)))
        for at in range(0, 600, 50):
            for writer in writers:
                writer.write(records[at : at + 50], [finding(at)])
                while writer.maintain():
                    pass
        for writer in writers:
            writer.close()
        for rank in (0, 1):
            assert len(list(store.replay("pooled", rank=rank))) == 600
        store.control_channel("pooled").post("set", {"every": 2})
        assert other.control_channel("pooled").read("set") == {"every": 2}
        store.delete_run("pooled")


def _answers(url: str) -> bool:
    try:
        open_store(url).close()
    except StoreUnavailable:
        time.sleep(0.05)
        return False
    return True
