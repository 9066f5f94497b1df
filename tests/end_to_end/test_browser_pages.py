"""Every page in a real Chromium over a store with a run of every kind, dark and light: what one must find is there."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mindscope.dashboard import start_in_thread
from mindscope.dashboard.pages import PAGES

from tests.dashboard.evaluated import EXPLANATION
from tests.dashboard.recorded import BAD_SITE, BAD_STEP

from .browsing import Watched, watched_page
from .kinds import KINDS, write_kinds

pytestmark = pytest.mark.browser

#: Where the pictures of the documentation are, and whether they are to be taken anew; normal runs leave them alone.
PICTURES = Path(__file__).parents[2] / "docs" / "dashboard"
IS_WRITING_DOCS = bool(os.environ.get("MINDSCOPE_WRITE_DOCS"))
SCHEMES = ("light", "dark")
#: Address, what is drawn there, and the words that a person came for.
FOUND = {
    "": ("/", "a.run-link:text-is('faulty')", ("Non-finite activation",)),
    "run": (
        "/run?run=faulty",
        "#live-heat .heatmaplayer image",
        ("Unhealthy", BAD_SITE, "Non-finite activation", f"step {BAD_STEP - 1}"),
    ),
    "scalars": ("/scalars?run=faulty&smooth=0.6", ".wall-card .scatterlayer .trace", ("learning_rate",)),
    "layers": ("/layers?run=faulty", "#layers-picture .heatmaplayer image", (BAD_SITE,)),
    "tensor": (
        f"/tensor?run=faulty&metric=activation/l2_norm&site={BAD_SITE}&step={BAD_STEP}",
        "#tensor-distribution .heatmaplayer image",
        (BAD_SITE, "Smallest to largest", f"at step {BAD_STEP}"),
    ),
    "findings": ("/findings?run=faulty", ".finding", ("turned finite input into 3 NaN", "Clamp its input")),
    "graph": ("/graph?run=faulty", "#graph-picture .scatterlayer .trace", ()),
    "ranks": ("/ranks?run=four-ranks", "#ranks-heat .heatmaplayer image", ("rank 2",)),
    "compare": (
        "/compare?run=faulty&with=healthy",
        "#compare-lines .scatterlayer .trace",
        ("Different from the start",),
    ),
    "watchpoints": ("/watchpoints?run=faulty", "#watchpoints-attached .empty-title", ("No training is running",)),
    "profile": ("/profile?run=profiled", "#profile-split .barlayer .trace", ("data",)),
    "lineage": ("/lineage", "#lineage-grid .ag-row", ("lr",)),
    "landscape": ("/landscape?run=explained", "#landscape-body .js-plotly-plot .main-svg", ()),
    "robustness": (
        "/robustness?run=attacked&epsilon=0.1",
        "#robustness-body .gallery img",
        ("Do not trust it", EXPLANATION[1:], "37.0%", "20.0%", "class 3, 99.1% sure", "Separation, AUC"),
    ),
    "media": ("/media?run=drawn", ".media-image", ("samples", "speech", "fixed noise")),
    "logs": ("/logs?run=failed", "#logs-grid .ag-row", ("out of memory",)),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    store = str(tmp_path_factory.mktemp("store") / "runs")
    write_kinds(store)
    with start_in_thread(store) as server:
        yield server.url.partition("?")[0]


@pytest.fixture
def watched(browser, url, request) -> Iterator[Watched]:
    with watched_page(browser, url, getattr(request, "param", "light")) as watched:
        yield watched


def _picture(watched: Watched, name: str) -> None:
    """Takes the picture of the documentation, when it is to be taken."""
    if not IS_WRITING_DOCS:
        return
    PICTURES.mkdir(exist_ok=True)
    watched.page.mouse.move(0, 0)
    watched.page.evaluate("scrollTo(0, 0)")
    browser = watched.page.context.new_cdp_session(watched.page)
    taken = browser.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    (PICTURES / f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))


def test_every_page_has_something_to_be_found():
    assert set(FOUND) == set(PAGES)


@pytest.mark.parametrize("watched", SCHEMES, indirect=True, ids=SCHEMES)
def test_every_page_shows_what_a_person_came_for(watched, request):
    """One visit after the other in the same browser window, as a person goes: each is drawn and none complains."""
    scheme = request.node.callspec.params["watched"]
    watched.open("/", FOUND[""][1])
    for page, (path, selector, words) in FOUND.items():
        watched.page.evaluate(
            "place => { history.pushState({}, '', place); dispatchEvent(new PopStateEvent('popstate')) }", path
        )
        watched.page.wait_for_selector(selector, state="attached")
        said = watched.settled()
        assert [word for word in words if word not in said] == [], page
        assert watched.nameless() == [], page
        assert len(watched.page.url) - len(watched.url) < 300, page
        assert watched.complaints == [], page
        if (scheme == "dark") == (page in ("layers", "robustness")):
            _picture(watched, page or "runs")


IS_COMPLETE = bool(os.environ.get("MINDSCOPE_TEST_ALL"))


def _visits() -> list[pytest.ParameterSet]:
    """Every kind of run with a third of the pages in one scheme, in turn; all of it when all tests are asked for."""
    thirds = [list(PAGES)[at::3] for at in range(3)]
    rows = [(scheme, kind, list(PAGES)) for kind in KINDS for scheme in SCHEMES]
    few = [(SCHEMES[at % 2], kind, thirds[at % 3]) for at, kind in enumerate(KINDS)]
    return [
        pytest.param(scheme, kind, pages, id=f"{kind}-{scheme}")
        for scheme, kind, pages in (rows if IS_COMPLETE else few)
    ]


@pytest.mark.parametrize(("watched", "kind", "pages"), _visits(), indirect=["watched"])
def test_no_page_complains_of_any_kind_of_run(watched, kind, pages):
    watched.open(f"/run?run={kind}", ".nav-link.here")
    for page in pages:
        said = watched.visit(PAGES[page].title)
        assert len(said) > 40, page
        assert watched.page.text_content("#banner") == "", page
        assert watched.complaints == [], page


def test_the_tensor_is_two_clicks_away(watched):
    watched.open("/", FOUND[""][1])
    watched.page.click("a.run-link:text-is('faulty')")
    watched.page.wait_for_selector("#detail-curve .scatterlayer .trace", state="attached")
    watched.page.click("text=Open this tensor")
    watched.page.wait_for_selector("#tensor-curve .scatterlayer .trace", state="attached")
    assert BAD_SITE in watched.settled()
    assert f"site={BAD_SITE}" in watched.page.url
    assert f"step={BAD_STEP}" in watched.page.url


def test_an_attack_and_a_budget_are_chosen_and_the_address_keeps_them(watched):
    watched.open("/robustness?run=attacked", "#robustness-body .gallery img")
    watched.settled()
    watched.page.click("#robustness-attack")
    watched.page.click("[role=option]:has-text('square')")
    watched.page.click("#robustness-epsilon")
    watched.page.click("[role=option]:has-text('0.2')")
    watched.page.wait_for_selector("text=Examples by square at epsilon 0.2")
    watched.settled()
    assert "attack=square" in watched.page.url
    assert "epsilon=0.2" in watched.page.url
    watched.page.reload()
    watched.page.wait_for_selector("text=Examples by square at epsilon 0.2")


def test_a_single_number_stands_where_its_value_lies_between_the_ends_of_its_scale(watched):
    watched.open("/robustness?run=attacked", "#robustness-body .gauge-dot")
    watched.settled()
    (row,) = [one for one in watched.page.query_selector_all(".gauges tr") if "Distance to another" in one.inner_text()]
    line, dot = (row.query_selector(part).bounding_box() for part in (".gauge-line", ".gauge-dot"))
    share = (dot["x"] + dot["width"] / 2 - line["x"]) / line["width"]
    assert share == pytest.approx(0.5, abs=0.01)  # a median of 1 in a ball of radius 2
    assert row.query_selector("[role=img]").get_attribute("aria-label") == "1 on a scale from 0 to 2"
    assert "An estimate, no certificate." in row.inner_text()


def test_tables_are_loaded_with_the_first_table_and_once(watched):
    asked = []
    watched.page.on("request", lambda request: asked.append(request.url) if "dash_ag_grid" in request.url else None)
    watched.open("/run?run=faulty", ".nav-link.here")
    watched.settled()
    assert asked == []
    for title in ("Logs", "Findings", "Runs"):
        watched.visit(title)
    watched.page.wait_for_selector("a.run-link:text-is('faulty')")
    assert len([url for url in asked if "dash_ag_grid." in url]) == 1


def test_a_view_of_the_scalars_is_kept_by_name(watched):
    watched.open("/scalars?run=faulty&scale=log", ".wall-card .scatterlayer .trace")
    watched.page.fill("#scalars-view-name", "mine")
    watched.page.click("#scalars-save")
    watched.open("/scalars?run=healthy", ".wall-card .scatterlayer .trace")
    watched.page.click("#scalars-view")
    watched.page.click("[role=option]:has-text('mine')")
    watched.wait("location.search === '?run=faulty&scale=log'")
    watched.page.wait_for_selector("h1:text-is('faulty')")


def test_plotly_that_comes_late_is_waited_for_and_not_loaded_again(watched):
    def late(route):
        watched.page.wait_for_timeout(1500)
        route.continue_()

    watched.page.route("**/plotly.min.js", late)
    watched.open("/run?run=faulty", "#live-curve .scatterlayer .trace")
    watched.settled()
    assert (
        watched.page.evaluate("document.querySelectorAll('script[src*=plotly]').length") == 2
    )  # ours, and assets/plotly.js


def test_a_phone_shows_every_page_within_its_width_under_one_line_of_pages(watched):
    watched.page.set_viewport_size({"width": 390, "height": 844})
    watched.open("/", FOUND[""][1])
    titles = set()
    for page, (path, selector, _) in FOUND.items():
        watched.page.evaluate(
            "place => { history.pushState({}, '', place); dispatchEvent(new PopStateEvent('popstate')) }", path
        )
        watched.page.wait_for_selector(selector, state="attached")
        watched.settled()
        assert watched.page.evaluate("document.documentElement.scrollWidth") == 390, page
        assert watched.page.locator(".side").bounding_box()["height"] <= 60, page
        here = watched.page.locator(".nav-link.here").bounding_box()
        assert here["x"] > 0, page
        assert here["x"] + here["width"] < 390, page
        titles.add(watched.page.title())
    assert len(titles) == len(PAGES)


def test_a_narrow_window_is_filled_by_the_page_and_never_wider_than_it(watched):
    watched.page.set_viewport_size({"width": 820, "height": 1000})
    for path, selector in (("/", "a.run-link:text-is('faulty')"), ("/robustness?run=attacked", ".gauge-dot")):
        watched.open(path, selector)
        watched.settled()
        assert watched.page.evaluate("document.getElementById('main').offsetWidth") >= 800, path
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 820, path
