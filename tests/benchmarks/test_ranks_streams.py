"""A short version of the campaign against streams: what was put is in the store, once and in order."""

from pathlib import Path

import pytest
from mindscope.storage import Event, open_store

from benchmarks.private_nats import PrivateNats, can_cut, is_installed
from benchmarks.ranks_streams import Plan, compare, disturbed, record_of

QUICK = Plan(ranks=6, kills=3, restarts=1, cuts=1, cut_s=3.0, collectors=2, senders=1, pause_s=0.2, calm_s=1.0, seed=3)


@pytest.mark.skipif(not is_installed(), reason="no NATS server is installed here (nats-server)")
def test_killed_collectors_a_killed_server_and_a_cut_link_cost_nothing() -> None:
    found = disturbed(QUICK)
    assert found["records"] > 100
    told = {name: found[name] for name in ("missing", "twice", "disordered", "different", "lost_at_senders", "wrong")}
    assert told == {"missing": 0, "twice": 0, "disordered": 0, "different": 0, "lost_at_senders": 0, "wrong": []}


@pytest.mark.skipif(not is_installed(), reason="no NATS server is installed here (nats-server)")
def test_a_link_of_its_own_is_cut_and_comes_back() -> None:
    if not can_cut():
        pytest.skip("network namespaces cannot be made here")
    with PrivateNats(is_apart=True) as server:
        with open_store(server.url()) as store:
            writer = store.begin_run("x")
        server.cut(0.1)
        writer.close()


def test_what_is_missing_wrong_or_not_ended_is_noticed(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        writer = store.begin_run("x", run_id="streams")
        records = [record_of(0, step) for step in range(6)]
        writer.write([*records[:2], *records[3:5]])
        writer.write_events([Event("resumed", 9, data={"step": 9})])
    found = compare(str(tmp_path), {0: 6})
    assert found["missing"] == 2
    assert len(found["wrong"]) == 3
    with pytest.raises(Exception, match="rank1"):
        compare(str(tmp_path), {1: 6})
