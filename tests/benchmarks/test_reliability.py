"""The campaigns of `python benchmarks/reliability` tell what a failure costs, and notice one."""

import pytest
from mindscope.storage import open_store

from benchmarks.private_postgres import PrivateServer, binaries
from benchmarks.reliability.kills import kill
from benchmarks.reliability.store_faults import ended_connections, locked_file
from benchmarks.reliability.training import Outcome, Training, compared, made_record, total


def test_a_kill_loses_at_most_the_queue():
    lost, wrong = kill(3)
    assert (wrong, lost <= 64) == ("", True)


def test_a_lock_of_two_seconds_costs_nothing():
    outcome = locked_file(2.0, 0)
    assert outcome.put > 30
    assert (outcome.stored, outcome.counted, outcome.uncounted, outcome.mixed) == (outcome.put, 0, 0, 0)


@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server is installed")
def test_connections_that_are_ended_cost_nothing():
    with PrivateServer() as server:
        outcome = ended_connections(server, 1.0, 0)
    assert (outcome.stored, outcome.counted, outcome.uncounted, outcome.mixed) == (outcome.put, 0, 0, 0)


def test_records_that_are_gone_or_others_are_noticed(tmp_path):
    with open_store(tmp_path) as store:
        training = Training(store, "run", 0)
        training.records = [made_record(0, step, 4) for step in range(5)]
        for record in [*training.records[:3], made_record(1, 3, 4)]:
            training.queue.put(record)
        training.queue.close()
        found = compared(store, (training,), 0.0)
    assert found == Outcome(put=5, stored=3, mixed=1, counted=0, uncounted=2, reported=0, away_s=0.0)
    assert total([found, found])["put"] == 10
