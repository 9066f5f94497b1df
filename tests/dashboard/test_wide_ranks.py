"""What the page Ranks reads of 512 ranks: their roll-up, and never all of them one by one."""

import time

import numpy as np
import pytest
from mindscope.dashboard.app import page_at
from mindscope.dashboard.pages.ranks.rank_maps import known_metrics, rank_map, rank_traffic, row_choices, usual_metric
from mindscope.dashboard.queries.rank_view import folded, rank_view
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.step_waits import step_waits
from mindscope.storage import open_store
from mindscope.storage.ranks.topology import RankAxis

from .ranked import RANKS as FEW
from .ranked import SLOW as SLOW_OF_FEW
from .ranked import write_ranks
from .wide import ODD, RANKS, SINCE, SLOW, STEPS, TOPOLOGY, recorder, stacks, write_wide


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with open_store(tmp_path_factory.mktemp("wide") / "runs") as opened:
        write_wide(opened)
        write_ranks(opened)
        yield opened


@pytest.fixture
def view(store):
    reader = Reader(store)
    return reader, rank_view(reader, store.find_run("wide"))


def test_who_since_when_and_what_it_costs_is_said_first(store, view):
    _, shown = view
    verdict = shown.verdict
    assert (verdict.rank, verdict.since, verdict.tone) == (SLOW, SINCE, "watch")
    assert verdict.cost_s == pytest.approx(0.3 * (STEPS - SINCE), rel=0.05)
    assert f"Rank {SLOW} (host node-27, data 27, tensor 3) holds up the others since step 30" in verdict.sentence
    assert any(f"Rank {ODD} " in words and "gradient/l2_norm of two.weight" in words for words in verdict.further)
    _, _, content = page_at(Reader(store), "/ranks", "?run=wide")
    text = str(content.to_plotly_json())
    for words in (verdict.sentence, "Who is it", "Since when", "What does it cost", "64 × host, 64 × data, 8 × tensor"):
        assert words in text


def test_no_answer_reads_all_ranks_one_by_one(view):
    _, shown = view
    assert shown.count == RANKS
    assert len(shown.run.ranks) <= 16
    assert {SLOW, ODD} <= set(shown.run.ranks)


@pytest.mark.parametrize(
    ("rows", "count", "slow"), [("host", 64, SLOW // 8), ("data", 64, SLOW // 8), ("tensor", 8, 3)]
)
def test_rows_are_the_groups_of_an_axis_and_one_has_the_slow_rank(view, rows, count, slow):
    reader, shown = view
    assert row_choices(shown) == ["host", "data", "tensor"]
    metric = usual_metric(known_metrics(reader, shown), shown)
    assert metric == "scalar/work_seconds"
    found = rank_map(reader, shown, metric, "", rows)
    assert found.matrix.high.shape == (count, STEPS)
    late = found.matrix.high[:, SINCE:]
    assert (late.argmax(axis=0) == slow).all()
    assert found.matrix.high[:, :SINCE].max() < late[slow].min()
    assert f"rank {SLOW}" in found.note


def test_what_is_not_kept_by_axis_has_rows_of_quantiles(view):
    reader, shown = view
    found = rank_map(reader, shown, "gradient/l2_norm", "two.weight", "host")
    assert found.matrix.sites[0] == "largest"
    assert found.matrix.sites[-1] == "smallest"
    every = np.stack([next(iter(stack.blocks.values())).values[1, 0] for stack in stacks()])
    np.testing.assert_array_equal(found.matrix.high[0], every.max(axis=1))
    np.testing.assert_array_equal(found.matrix.low[-1], every.min(axis=1))
    assert f"rank {ODD}" in found.note


def test_ranks_of_a_group_give_to_each_other_alone(view):
    reader, shown = view
    found = rank_traffic(reader, shown, ())
    assert found.names == shown.axes[0].names
    sent = np.zeros((RANKS, RANKS))
    data, tensor = TOPOLOGY.group("data"), TOPOLOGY.group("tensor")
    for giver in range(RANKS):
        sent[giver, data == data[giver]] += 2 * 4096 / 64
        sent[giver, tensor == tensor[giver]] += 4096
        sent[giver, giver] = 0
    np.testing.assert_allclose(found.sent_bytes, sent.reshape(64, 8, 64, 8).sum(axis=(1, 3)))


def test_a_wait_for_a_rank_that_is_not_shown_is_blamed_on_nobody(view):
    reader, shown = view
    waits = step_waits(reader, shown.run, shown.topology, STEPS - 1)
    first = waits.moments[0]
    at = {int(rank): place for place, rank in enumerate(waits.ranks)}
    assert first.site == "all_reduce/data"
    assert first.cause[at[SLOW]] == at[SLOW]  # it waited for nobody
    assert first.cause[at[0]] == -2


def test_the_ranks_of_a_small_run_wait_for_the_one_that_came_last(store):
    reader = Reader(store)
    shown = rank_view(reader, store.find_run("four-ranks"))
    waits = step_waits(reader, shown.run, shown.topology, None)
    assert len(waits.moments) == 2
    for moment in waits.moments:
        assert moment.cause.tolist() == [SLOW_OF_FEW] * FEW
        np.testing.assert_allclose(moment.waits_s, [0.01 if rank == SLOW_OF_FEW else 0.1 for rank in range(FEW)])
        assert np.ptp(moment.met_s) == 0.0
    np.testing.assert_allclose(waits.step_s, 0.5)
    ends = np.stack([moment.ended_s for moment in waits.moments])
    assert (ends[-1] <= waits.step_s).all()


def test_rows_of_ranks_fold_into_their_groups(store):
    reader = Reader(store)
    shown = rank_view(reader, store.find_run("four-ranks"))
    found = rank_map(reader, shown, "communication/wait_seconds", "all_reduce/world", "rank")
    axis = RankAxis("host", ("a", "b"), np.array([0, 0, 1, 1]))
    by_host = folded(found.matrix, shown.run.ranks, axis)
    assert by_host.sites == ("host a", "host b")
    np.testing.assert_array_equal(by_host.low, np.stack([found.matrix.low[:2].min(0), found.matrix.low[2:].min(0)]))
    np.testing.assert_array_equal(by_host.high, np.stack([found.matrix.high[:2].max(0), found.matrix.high[2:].max(0)]))


def test_an_outlying_rank_is_there_while_the_run_is_written(store):
    """As soon as its step is written, from a reader that has answered before."""
    rolling = recorder(store, "live")
    reader = Reader(store)
    for stack in stacks(SINCE):
        rolling.add_step(stack)
    rolling.flush()
    run = store.find_run("live")
    assert rank_view(reader, run).verdict.tone == "watch"  # rank 400 stood out at step 12
    for stack in stacks(3, first=SINCE):
        rolling.add_step(stack)
    rolling.flush()
    begin = time.perf_counter()
    verdict = rank_view(reader, store.find_run("live")).verdict
    assert time.perf_counter() - begin < 3.0
    assert (verdict.rank, verdict.since) == (SLOW, SINCE)
    rolling.close()
