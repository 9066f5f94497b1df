"""A PostgreSQL server that dies after it has acknowledged, and before it is durable, costs a collector nothing."""

from collections.abc import Sequence

import pytest
from mindscope.storage.database.database_store import DatabaseStore
from mindscope.storage.database.rank_recording import StoredMessage
from mindscope.storage.streams.collector import Collector
from mindscope.storage.streams.stream_store import StreamStore
from mindscope.storage.url import open_collected

from benchmarks.private_postgres import LAZY, PrivateServer, binaries
from tests.storage.samples import layout, walk
from tests.storage.streams.broker import MemoryBroker


@pytest.mark.postgres
@pytest.mark.parametrize("crash_at", [1, 3])
def test_nothing_is_acknowledged_that_a_crash_takes_back(crash_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed here, so it cannot be killed")
    broker = MemoryBroker()
    writers = [StreamStore(broker).begin_run("x", run_id="x", rank=rank) for rank in range(3)]
    flush, calls = DatabaseStore.flush, 0
    with PrivateServer(LAZY) as server:

        def crashing(self: DatabaseStore, stored: Sequence[StoredMessage]) -> None:
            nonlocal calls
            calls += 1
            if calls == crash_at:
                server.crash()
                server.start()
            flush(self, stored)

        monkeypatch.setattr(DatabaseStore, "flush", crashing)
        with open_collected(server.url) as target:
            collector = Collector(broker.subscription(), target)
            for first in range(0, 40, 10):
                for writer in writers:
                    writer.write(walk(10, layout(4), first=first))
                collector.step()
            for writer in writers:
                writer.close()
            collector.run(until_empty=True)
            assert calls > crash_at
            assert target.find_run("x").state == "finished"
            for rank in range(3):
                assert [record.step for record in target.replay("x", rank=rank)] == list(range(40))
                assert target.events("x", rank=rank, kind="observations_lost") == ()
            assert target.verify("x") == ()
