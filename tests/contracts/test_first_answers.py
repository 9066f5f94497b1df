"""What a browser asks as soon as a page is laid out is answered without a complaint, for every run and odd address."""

import json

import pytest
from dash.development.base_component import Component
from mindscope.dashboard.app import create_app, page_at
from mindscope.dashboard.components.shell import shell
from mindscope.dashboard.pages import PAGES
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store

from tests.dashboard.evaluated import write_everything
from tests.dashboard.explained import write_explained
from tests.dashboard.profiled import write_profiled
from tests.dashboard.ranked import write_ranks
from tests.dashboard.recorded import BAD_SITE, Plan, write_run

RUNS = ("faulty", "four-ranks", "profiled", "explained", "attacked", "empty", "one-step")
ODD = ("metric=nonsense", "metric=no/such&site=nowhere", f"site={BAD_SITE}&step=999999999", "metric=../x&site=%00")


@pytest.fixture(scope="module")
def reader():
    with open_store("memory:") as store:
        write_explained(store)
        write_profiled(store)
        write_ranks(store)
        store.begin_run("empty").close()
        write_run(store, "one-step", Plan(steps=1, goes_bad=False, spike_at=None))
        write_everything(store, write_run(store, "attacked", Plan(steps=5, goes_bad=False, spike_at=None)))
        write_run(store, "faulty", Plan(steps=200))
        yield Reader(store), create_app(store)


def _laid_out(*components):
    """Every property of what is laid out, by id and name."""
    found = {}
    for component in components:
        for part in (component, *component._traverse()):
            if isinstance(part, Component) and isinstance(getattr(part, "id", None), str):
                found[part.id] = part.to_plotly_json()["props"]
    return found


def _questions(client, laid_out):
    """The callbacks that a browser calls at once: nothing holds them back and all that they take is there."""
    for call in client.get("/_dash-dependencies").get_json():
        name = call["output"]
        if call["clientside_function"] or call["prevent_initial_call"] or "." not in name:
            continue
        ends = [dict(zip(("id", "property"), one.rsplit(".", 1), strict=True)) for one in name.strip(".").split("...")]
        if not {end["id"] for end in (*call["inputs"], *call["state"], *ends)} <= set(laid_out):
            continue
        given = {
            kind: [{**end, "value": laid_out[end["id"]].get(end["property"])} for end in call[kind]]
            for kind in ("inputs", "state")
        }
        changed = [f"{end['id']}.{end['property']}" for end in call["inputs"]]
        yield {
            "output": name,
            "outputs": ends if name.startswith("..") else ends[0],
            **given,
            "changedPropIds": changed,
        }


def _complaints(reader, app, page, query):
    path, search = f"/{page}", f"?{query}"
    status, _, content = page_at(reader, path, search)
    assert status == 200
    laid_out = _laid_out(shell("here"), content)
    client = app.server.test_client()
    for question in _questions(client, laid_out):
        if question["output"].startswith("..content.children"):
            continue
        text = json.dumps(question, default=lambda part: part.to_plotly_json())
        answer = client.post("/_dash-update-component", data=text, content_type="application/json")
        if answer.status_code not in (200, 204) or '"banner"' in answer.get_data(as_text=True):
            yield question["output"], answer.status_code, answer.get_data(as_text=True)[:300]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("page", PAGES)
def test_no_first_answer_complains(reader, page, run):
    assert list(_complaints(*reader, page, f"run={run}")) == []


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("page", [name for name, page in PAGES.items() if page.needs_run])
def test_an_odd_place_is_told_where_it_would_stand(reader, page, odd):
    assert list(_complaints(*reader, page, f"run=faulty&{odd}")) == []


def test_a_complaint_would_be_seen(reader, monkeypatch):
    monkeypatch.setattr("mindscope.dashboard.pages.live_run.live_run_page.run_heatmap_figure", lambda *_, **__: 1 / 0)
    (complaint,) = _complaints(*reader, "run", "run=faulty")
    assert "live-heat.figure" in complaint[0]
    assert "Something went wrong on this page" in complaint[2]
