"""What every page promises: an answer for every run and every address, ids that exist, words for who cannot see."""

import json
import math

import pytest
from dash.development.base_component import Component
from mindscope.dashboard.app import create_app, page_at
from mindscope.dashboard.components.shell import shell
from mindscope.dashboard.pages import PAGES
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import StepRecord, Store, StoreUnavailable, open_store

from tests.dashboard.calling import call
from tests.dashboard.recorded import Plan, findings, records, structure_of, write_evaluation, write_run

RUNS = ("bad", "healthy", "empty", "one-step", "failed", "only-scalars", "all-nan", "attacked", "no-name-of-its-own")


@pytest.fixture(scope="module")
def store():
    """One run of every kind that a page may meet."""
    with open_store("memory:") as store:
        write_evaluation(store, write_run(store, "bad", Plan(steps=200)))
        write_run(store, "healthy", Plan(steps=30, goes_bad=False), closes=False)
        store.begin_run("empty")
        write_run(store, "one-step", Plan(steps=1, goes_bad=False))
        failed = store.begin_run("failed")
        failed.write(list(records(Plan(steps=3, goes_bad=False))))
        failed.close("failed", "RuntimeError: out of memory")
        scalars = store.begin_run("only-scalars")
        scalars.write([StepRecord(step, 0.0, scalars={"accuracy": step / 10}) for step in range(5)])
        scalars.close()
        broken = store.begin_run("all-nan")
        broken.write_structure(structure_of(Plan()))
        broken.write([StepRecord(step, 0.0, scalars={"loss": math.nan}) for step in range(5)], findings())
        broken.close()
        store.begin_run("attacked", kind="evaluation").close()
        store.begin_run("no-name-of-its-own").close()
        yield store


@pytest.fixture(scope="module")
def reader(store):
    return Reader(store)


@pytest.fixture(scope="module")
def app(store):
    return create_app(store)


def parts(component):
    """The component and everything in it."""
    if isinstance(component, Component):
        yield component
        for child in component._traverse():
            if isinstance(child, Component):
                yield child


def words(component) -> str:
    return json.dumps(
        component.to_plotly_json(), default=lambda part: getattr(part, "to_plotly_json", str)(), ensure_ascii=False
    )


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_answers_for_every_run(reader, page, run):
    status, address, content = page_at(reader, f"/{page}", f"?run={run}")
    assert (status, address.page) == (200, page)
    assert len(words(content)) > 200


@pytest.mark.parametrize("page", PAGES)
def test_every_page_answers_for_an_empty_store(page):
    with open_store("memory:") as nothing:
        status, _, content = page_at(Reader(nothing), f"/{page}", "")
        assert status == 200
        assert "mindscope demo" in words(content)


@pytest.mark.parametrize("page", [name for name, page in PAGES.items() if page.needs_run])
def test_an_unknown_run_gets_the_nearest_names(reader, page):
    status, _, content = page_at(reader, f"/{page}", "?run=helthy")
    assert status == 404
    assert "healthy" in words(content)


def test_an_unknown_page_gets_the_nearest_page(reader):
    status, _, content = page_at(reader, "/finding", "")
    assert status == 404
    assert "/findings" in words(content)


def broken_queries():
    """For every page: what no page understands, and nonsense under each of its own keys that cannot say everything."""
    for page in PAGES.values():
        yield from ((page.path, query) for query in ("?step=x", "?run=" + "x" * 5000))
        yield from ((page.path, f"?{key.name}=%00-") for key in page.keys if key.words or key.pattern)


@pytest.mark.parametrize(("page", "query"), list(broken_queries()))
def test_a_broken_query_is_told_and_never_a_server_error(app, page, query):
    answer = app.server.test_client().get(f"/{page}{query}")
    assert answer.status_code == 400
    assert answer.mimetype == "text/html"


def test_patterns_of_keys_match_their_examples():
    patterned = [key for page in PAGES.values() for key in page.keys if key.pattern]
    assert patterned
    for key in patterned:
        key.check(key.example)


@pytest.mark.parametrize("path", ["/nowhere", "/run?run=nobody", "/findings/deeper", "/%2e%2e/%2e%2e/etc/passwd"])
def test_an_address_that_leads_nowhere_is_answered_with_404(app, path):
    assert app.server.test_client().get(path).status_code == 404


@pytest.mark.parametrize("page", PAGES)
def test_a_store_that_fails_is_told_by_every_page(store, page):
    class Failing:
        url = "runs/"

        def __getattr__(self, name):
            raise StoreUnavailable("the disk is gone")

    status, _, content = page_at(Reader(Failing()), f"/{page}", "?run=bad")
    assert status == 503
    assert "the disk is gone" in words(content)


def test_every_id_of_a_callback_is_laid_out_somewhere(app, reader):
    known = {str(getattr(part, "id", None)) for part in parts(shell("here"))}
    for page in PAGES:
        known |= {str(getattr(part, "id", None)) for part in parts(page_at(reader, f"/{page}", "?run=bad")[2])}
    used = {end["id"] for call in app.callback_map.values() for end in (*call["inputs"], *call["state"])}
    assert {name for name in used if not name.startswith("{")} <= known


@pytest.mark.parametrize("page", PAGES)
def test_no_id_is_laid_out_twice(reader, page):
    ids = [str(part.id) for part in parts(page_at(reader, f"/{page}", "?run=bad")[2]) if getattr(part, "id", None)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("page", PAGES)
def test_every_control_and_picture_has_a_label(reader, page):
    for part in parts(page_at(reader, f"/{page}", "?run=bad")[2]):
        kind = type(part).__name__
        if kind in ("Select", "SegmentedControl", "TextInput", "NumberInput"):
            assert getattr(part, "aria-label"), part.id
        if getattr(part, "role", None) in ("figure", "region"):
            assert getattr(part, "aria-label")


def test_graphs_never_offer_to_upload(reader):
    graphs = [part for part in parts(page_at(reader, "/run", "?run=bad")[2]) if type(part).__name__ == "Graph"]
    assert len(graphs) >= 2
    assert all(part.config["showSendToCloud"] is False for part in graphs)


@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/_dash-dependencies"])
def test_nothing_that_is_served_names_another_host_to_load_from(app, path):
    body = app.server.test_client().get(path).get_data(as_text=True)
    assert not [
        word for word in ("https://", "//cdn", "unpkg", "jsdelivr") if word in body.replace("http://www.w3.org", "")
    ]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("view", ["raw", "deviation"])
def test_the_pictures_of_every_run_can_be_drawn(app, store: Store, run, view):
    reference = store.find_run(run).id
    state = {"live-run": reference, "scheme": "dark"}
    curve = call(app, "live-curve.figure", {"live-scalar": "loss", "live-scale": "log"}, state)
    assert curve.status_code == 200
    asked = {
        "live-maps": ["activation/l2_norm", "gradient/l2_norm"],
        "live-metric": "activation/l2_norm",
        "live-view": view,
        "live-site": "head",
        "live-step": 0,
        "live-beat": 1,
    }
    heat = call(app, "live-heat.figure", asked, state)
    assert heat.status_code == 200
    assert "head" in heat.get_data(as_text=True) or "No statistics" in heat.get_data(as_text=True)
    detail = call(app, "live-detail.children", asked, state)
    assert detail.status_code == 200
    assert "head" in detail.get_data(as_text=True)
    assert call(app, "robustness-body.children", {"robustness-run": reference}, state).status_code == 200


@pytest.mark.parametrize("metric", ["nonsense", "activation/l2_nrm", "no/such", "../x"])
def test_an_unknown_metric_is_told_with_the_nearest(app, store, metric):
    state = {"live-run": store.find_run("bad").id, "scheme": "light"}
    answer = call(app, "live-heat.figure", {"live-maps": [metric], "live-view": "raw"}, state)
    body = json.dumps(answer.get_json(), ensure_ascii=False)
    assert "No such metric" in body or "No metric" in body
    if metric == "activation/l2_nrm":
        assert "did you mean 'activation/l2_norm'?" in body


def test_a_run_deleted_while_it_is_watched_is_told_without_a_server_error(app):
    answer = call(app, "live-curve.figure", {"live-scalar": "loss", "live-scale": "linear"}, {"live-run": "gone"})
    assert answer.status_code in (200, 204)
    assert "no longer in the store" in answer.get_data(as_text=True)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"output": "x.y", "inputs": 3}', b"\xff\xfe"])
def test_a_request_that_is_no_callback_is_refused_as_a_bad_request(app, body):
    answer = app.server.test_client().post("/_dash-update-component", data=body, content_type="application/json")
    assert 400 <= answer.status_code < 500
    assert "Traceback" not in answer.get_data(as_text=True)
