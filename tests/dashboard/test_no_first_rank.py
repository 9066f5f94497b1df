"""A run that has only ranks 2 and 3 is shown as any other: every page, download and metric reads its first rank."""

import json

import pytest
from mindscope.dashboard.address import PageAddress
from mindscope.dashboard.app import create_app, page_at
from mindscope.dashboard.downloads import download_link
from mindscope.dashboard.first_paint import loss_html
from mindscope.dashboard.pages import PAGES
from mindscope.dashboard.queries.reader import Reader
from mindscope.insight import diagnose, stored_facts
from mindscope.insight.compare import compare
from mindscope.insight.model_graph import model_graph
from mindscope.storage import open_store

from .calling import call
from .late_ranks import RANKS, write_late_ranks
from .recorded import BAD_SITE

METRIC = "activation/l2_norm"
#: Of each page that draws after it was laid out: the output of its callback, what was chosen, and what must be there.
DRAWN = {
    "run": ("live-curve.figure", {"live-scalar": "loss", "live-scale": "linear"}, "scatter"),
    "layers": ("layers-picture.figure", {"layers-metric": METRIC, "layers-view": "values"}, BAD_SITE),
    "tensor": (
        "tensor-body.children",
        {"tensor-metric": METRIC, "tensor-site": BAD_SITE, "tensor-axis": "step", "tensor-over": "ranks"},
        "rank 3",
    ),
    "graph": (
        "graph-picture.figure",
        {"graph-metric": METRIC, "graph-shape": "tree", "graph-color": "values"},
        "decoder",
    ),
    "ranks": ("ranks-heat.figure", {"ranks-metric": "scalar/loss", "ranks-site": "", "ranks-rows": "rank"}, "heatmap"),
    "compare": ("compare-lines.figure", {"compare-other": "twin", "compare-metric": "scalar/loss"}, "scatter"),
    "profile": ("profile-split.figure", {"profile-rank": ""}, "bar"),
    "logs": ("logs-grid.rowData", {"logs-part": "scalars"}, "learning_rate"),
}


@pytest.fixture(scope="module")
def store():
    with open_store("memory:") as store:
        write_late_ranks(store, "twin")
        write_late_ranks(store, "late")
        yield store


@pytest.fixture(scope="module")
def app(store):
    return create_app(store)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_answers(store, page):
    status, _, content = page_at(Reader(store), f"/{page}", "?run=late")
    assert status == 200
    assert "late" in str(content) or page == "lineage"


@pytest.mark.parametrize("page", DRAWN)
def test_a_page_draws_its_data(app, page):
    output, chosen, words = DRAWN[page]
    answer = call(app, output, chosen, {f"{'live' if page == 'run' else page}-run": "late", "scheme": "light"})
    assert answer.status_code == 200
    assert words in json.dumps(answer.json)


def test_its_series_are_those_of_the_first_rank_that_there_is(store):
    reader = Reader(store)
    mine = reader.series("late", "", "scalar/loss")
    assert mine.rank == store.find_run("late").first_rank == 2
    assert mine.values.tobytes() == store.series("late", "", "scalar/loss", rank=2, limit=1000).values.tobytes()
    assert reader.matrix("late", METRIC).rank == 2


def test_its_series_can_be_downloaded(app):
    client = app.server.test_client()
    link = download_link(PageAddress("tensor", "late", METRIC, BAD_SITE), form="csv")
    first, second = client.get(link), client.get(f"{link}&rank=3")
    assert "rank2" in first.headers["Content-Disposition"]
    assert "rank3" in second.headers["Content-Disposition"]
    assert first.data != second.data
    assert client.get(f"{link}&rank=0").status_code == 404
    assert client.get("/trace?run=late").status_code == 200


def test_prometheus_and_the_first_paint_have_its_loss(store, app):
    pytest.importorskip("prometheus_client", reason="no Prometheus: prometheus-client is not installed")
    assert 'mindscope_loss{name="late",run="late"}' in app.server.test_client().get("/metrics").get_data(as_text=True)
    assert "<path" in loss_html(store, store.find_run("late"))


def test_diagnosis_graph_and_comparison_read_the_ranks_that_there_are(store):
    run, twin = store.find_run("late"), store.find_run("twin")
    assert diagnose(store, "late").ranks == RANKS
    assert stored_facts(store, "late").seen["scalar/loss"] == 200
    assert model_graph(store, "late").rank == 2
    found = compare((store, store), (run, twin))
    assert (found.verdict, found.ranks) == ("identical", (2, 2))
