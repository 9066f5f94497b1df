"""What the ranks of a run recorded, side by side."""

import numpy as np
import pytest
from mindscope.dashboard.pages.ranks.rank_figures import traffic_figure
from mindscope.dashboard.pages.ranks.rank_maps import rank_traffic
from mindscope.dashboard.pages.ranks.rank_parts import collectives_table
from mindscope.dashboard.queries.rank_queries import (
    collective_costs,
    rank_matrix,
    rank_metrics,
    rank_series,
    rank_sites,
    step_seconds,
)
from mindscope.dashboard.queries.rank_view import rank_view
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.step_waits import step_waits
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import open_store

from .ranked import MOVED, RANKS, SLOW, STEP_S, STEPS, waiting, write_ranks
from .staged import BYTES, LATE, STAGES, WAITED_S, write_stages


@pytest.fixture(scope="module")
def ranks():
    with open_store("memory:") as store:
        run = write_ranks(store)
        yield Reader(store), run


def test_every_rank_is_a_row_with_its_own_values(ranks):
    reader, run = ranks
    matrix = rank_matrix(rank_series(reader, run, "communication/l2_norm", "all_reduce/world"), "communication/l2_norm")
    assert matrix.sites == ("rank 0", "rank 1", "rank 2", "rank 3")
    assert matrix.low.shape == (RANKS, STEPS)
    assert np.array_equal(matrix.low, np.repeat([[1.0], [2.0], [3.0], [4.0]], STEPS, axis=1))
    assert np.array_equal(matrix.low, matrix.high)


def test_a_nan_of_one_rank_is_counted_in_its_row_and_step_alone(ranks):
    reader, run = ranks
    matrix = rank_matrix(rank_series(reader, run, "scalar/loss", ""), "scalar/loss")
    assert list(zip(*np.nonzero(matrix.non_finite), strict=True)) == [(3, 20)]
    assert np.isnan(matrix.low[3, 20])
    assert matrix.present.sum() == RANKS * STEPS


def test_columns_hold_the_extremes_of_their_steps():
    with open_store("memory:") as store:
        run = write_ranks(store)
        series = rank_series(Reader(store), run, "scalar/loss", "")
    wide = {0: series[0]}
    wide[0] = type(series[0])("", "scalar/loss", np.arange(1000), np.sin(np.arange(1000.0)) * 1e3, np.zeros(1000), 1000)
    matrix = rank_matrix(wide, "scalar/loss")
    values = wide[0].values.reshape(-1, 4)
    assert np.array_equal(matrix.low[0], values.min(axis=1))
    assert np.array_equal(matrix.high[0], values.max(axis=1))


def test_collectives_are_summed_over_their_calls(ranks):
    reader, run = ranks
    found = collective_costs(reader, run)
    assert [(one.site, one.rank, one.calls, one.moved_bytes) for one in found] == [
        ("all_reduce/world", rank, 2, 2 * MOVED) for rank in range(RANKS)
    ]
    assert [one.wait_seconds for one in found] == pytest.approx([2 * waiting(rank) for rank in range(RANKS)])
    assert min(found, key=lambda one: one.wait_seconds).rank == SLOW


def test_what_can_be_chosen_is_what_any_rank_has(ranks):
    reader, run = ranks
    assert rank_metrics(reader, run)[:2] == ("scalar/loss", "scalar/step_seconds")
    assert rank_sites(reader, run, "communication/bytes") == ("all_reduce/world",)
    assert rank_sites(reader, run, "scalar/loss") == ("",)
    assert step_seconds(reader, run) == dict.fromkeys(range(RANKS), STEP_S)


def test_a_metric_that_nobody_has_is_an_empty_map(ranks):
    reader, run = ranks
    matrix = rank_matrix(rank_series(reader, run, "activation/l2_norm", "nowhere"), "activation/l2_norm")
    assert matrix.low.shape == (RANKS, 0)


def test_sends_are_given_to_their_peer_and_receives_wait_for_it():
    with open_store("memory:") as store:
        run = write_stages(store)
        reader = Reader(store)
        shown = rank_view(reader, run)
        costs = collective_costs(reader, run)
        found = rank_traffic(reader, shown, costs)
        waits = step_waits(reader, run, shown.topology, None)
        table = str(collectives_table(run.id, costs))
    np.testing.assert_array_equal(found.sent_bytes, np.diag([BYTES] * (STAGES - 1), 1))
    assert found.left_out == ()
    assert found.waits_s[LATE, LATE + 1] == pytest.approx(WAITED_S + 0.005)
    assert found.waits_s[0, 1] == pytest.approx(0.015)
    received = next(moment for moment in waits.moments if moment.site == "recv/world:-1")
    assert received.cause.tolist() == [-1, 0, 1, 2]
    assert received.waits_s[LATE + 1] == pytest.approx(WAITED_S)
    assert "world, from rank 1" in table
    assert "world, to rank 3" in table
    figure = traffic_figure(found, LIGHT)
    assert "0.305 s of waiting in sends and receives" in figure.to_dict()["data"][0]["customdata"][LATE][LATE + 1]
