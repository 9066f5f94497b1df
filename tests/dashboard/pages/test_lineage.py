"""The page of lineage over a search whose outcome is known."""

import json

import numpy as np
import pytest
from mindscope.dashboard import Settings, create_app
from mindscope.dashboard.app import page_at
from mindscope.dashboard.queries.provenance_queries import (
    ProvenanceCache,
    correlations,
    matching,
    results_of,
    short_name,
)
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store
from scipy.stats import spearmanr

from tests.dashboard.calling import call
from tests.dashboard.searched import RATES, SEEDS, loss_of, write_search

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def store():
    with open_store("memory:") as store:
        write_search(store)
        yield store


@pytest.fixture(scope="module")
def app(store):
    return create_app(store, Settings(token=TOKEN, is_open=True))


def asked(app, output, **said):
    given = {f"lineage-{name}": said.get(name) for name in ("where", "result", "fields", "order", "grid")}
    given |= {"lineage-result": said.get("result", "loss"), "lineage-seen": []}
    answer = call(app, f"lineage-{output}", given, {"scheme": "light", "lineage-order": said.get("order")})
    assert answer.status_code == 200
    return answer.get_json()["response"]


def test_every_run_is_a_row_with_its_parameters_and_its_result(app):
    said = asked(app, "grid.rowData")["lineage-grid"]
    rows = {row["name"]: row for row in said["rowData"]}
    assert len(rows) == len(RATES) * len(SEEDS)
    assert (rows["lr-0.1-1"]["tag.lr"], rows["lr-0.1-1"]["tag.model"]) == (0.1, "cnn")
    assert rows["lr-0.1-1"]["result.loss"] == loss_of(0.1, 1)
    assert rows["lr-1-2"]["result.loss"] == "NaN"
    formatted = [column["field"] for column in said["columnDefs"] if "valueFormatter" in column]
    assert formatted == ["tag.lr", "tag.seed", "result.loss"]
    assert "the last value that was logged" in said["columnDefs"][-1]["headerTooltip"]


def test_conditions_leave_the_runs_that_meet_them_and_the_order_is_that_of_the_address(app):
    said = asked(app, "grid.rowData", where="lr < 0.1, seed = 0", order="tag.lr.desc", fields=["tag.lr"])
    assert {row["name"] for row in said["lineage-grid"]["rowData"]} == {"lr-0.001-0", "lr-0.01-0"}
    assert said["lineage-counts"]["children"] == "2 of 12 runs"
    columns = {column["field"]: column["sort"] for column in said["lineage-grid"]["columnDefs"]}
    assert columns == {"name": None, "state": None, "tag.lr": "desc", "result.loss": None}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"where": "lr"}, "must read 'field operator value'"),
        ({"where": "lrr > 1"}, "no run has a field"),
        ({"fields": ["nonsense"]}, "no run has a field"),
    ],
)
def test_what_is_not_understood_is_told_with_what_would_be(app, said, told):
    answer = asked(app, "grid.rowData", **said)
    assert told.lower() in json.dumps(answer["lineage-note"]).lower()
    assert answer["lineage-grid"]["rowData"] == []


def test_the_rate_is_what_the_loss_depends_on(app):
    said = asked(app, "parallel.figure")
    bars = said["lineage-importance"]["figure"]["data"][0]
    assert bars["y"][0] == "tag.lr"
    assert bars["x"][0] > 0.95
    names = [trace["name"] for trace in said["lineage-parallel"]["figure"]["data"]]
    assert names[-1] == "no finite result"
    assert len(names) == 5


def test_a_run_that_is_ticked_is_drawn_on_top(app, store):
    said = asked(app, "parallel.figure", grid=[{"id": store.find_run("lr-0.1-1").id}])
    assert said["lineage-parallel"]["figure"]["data"][-1]["name"] == "lr-0.1-1"


def test_too_few_runs_are_told_instead_of_drawn(app):
    said = asked(app, "parallel.figure", where="lr = 1, seed = 0")
    assert said["lineage-parallel"]["style"] == {"display": "none"}
    assert "Nothing to compare" in json.dumps(said["lineage-parallel-note"])
    assert "Too few runs" in json.dumps(said["lineage-importance-note"])


def test_correlations_are_those_of_ranks_over_the_runs_that_have_both(store):
    rows = ProvenanceCache(Reader(store)).update().rows
    (found,) = correlations(rows, ["tag.lr"], ["result.loss"]).values[0]
    pairs = [
        (rate, loss_of(rate, seed)) for rate in RATES for seed in SEEDS if loss_of(rate, seed) == loss_of(rate, seed)
    ]
    assert found == pytest.approx(spearmanr(*zip(*pairs, strict=True)).statistic)
    assert np.isnan(correlations(matching(rows, "seed = 0"), ["tag.lr"], ["result.loss"]).values).all()
    assert set(results_of(rows)) == {
        f"{name}{end}" for name in ("loss", "accuracy") for end in ("", ".median", ".min", ".max")
    }


def test_a_remark_is_kept_with_the_token_and_refused_without():
    with open_store("memory:") as store:
        run = write_search(store)[0]
        app = create_app(store, Settings(token=TOKEN, is_open=True))
        stranger, friend = app.server.test_client(), app.server.test_client()
        friend.get(f"/?token={TOKEN}")
        state = {"lineage-remark": "the best one", "lineage-grid": [{"id": run.id}]}
        told = call(app, "lineage-said.children", {"lineage-save": 1}, state, client=stranger).get_data(as_text=True)
        assert "the token" in told
        assert store.find_run(run.id).remark == ""
        call(app, "lineage-said.children", {"lineage-save": 1}, state, client=friend)
        kept = store.find_run(run.id)
        assert (kept.remark, kept.name, dict(kept.tags)) == ("the best one", run.name, dict(run.tags))


def test_a_run_that_is_deleted_while_the_page_is_made_is_left_out():
    with open_store("memory:") as store:
        first, *others = write_search(store)
        reader = Reader(store)
        assert len(reader.runs()) == 1 + len(others)
        store.delete_run(first.id)
        assert {row.run for row in ProvenanceCache(reader).update().rows} == {run.id for run in others}


def test_a_long_store_is_read_look_by_look_the_newest_first_and_each_run_once():
    ticks = iter(range(0, 1000, 1))
    with open_store("memory:") as store:
        runs = [run.id for run in write_search(store)][::-1]
        origins = ProvenanceCache(Reader(store), clock=lambda: float(next(ticks)))  # a second a look at the clock
        for read in range(1, 4):
            known = origins.update()
            assert [row.run for row in known.rows] == runs[:read]
            assert known.left == len(runs) - read
        rest = ProvenanceCache(Reader(store))
        whole = rest.update()
        assert [row.run for row in whole.rows] == runs
        assert rest.update().version == whole.version
        assert all(one is other for one, other in zip(rest.update().rows, whole.rows, strict=True))


def test_a_run_is_read_again_when_it_has_changed():
    with open_store("memory:") as store:
        run = write_search(store)[0]
        reader = Reader(store)
        origins = ProvenanceCache(reader)
        before = origins.update()
        reader.change(run.id, lambda store: store.annotate(run.id, remark="look here"))
        after = origins.update()
        assert before.version != after.version
        assert after.rows[-1].fields["remark"] == "look here"


def test_an_order_that_is_none_is_a_bad_address(store):
    assert page_at(Reader(store), "/lineage", "?order=tag.lr.up")[0] == 400
    assert page_at(Reader(store), "/lineage", "?order=tag.lr.desc&where=lr+%3E+1")[0] == 200


def test_fields_are_offered_by_the_shortest_name_that_means_no_other(app, store):
    offered = asked(app, "grid.rowData")["lineage-fields"]["data"]
    assert {"value": "lr", "label": "tag.lr"} in offered
    known = ("name", "tag.lr", "optimizer.lr", "config.every", "config.deep.every", "optimizer")
    assert [short_name(name, known) for name in known] == [
        "name",
        "lr",
        "optimizer.lr",
        "config.every",
        "deep.every",
        "optimizer",
    ]
    rows = asked(app, "grid.rowData", fields=["lr", "seed"])["lineage-grid"]["rowData"]
    assert set(rows[0]) >= {"tag.lr", "tag.seed"}
