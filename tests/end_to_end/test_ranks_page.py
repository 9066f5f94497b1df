"""The page Ranks in a real Chromium: 512 ranks while they are written, and who it is on the first screen."""

import json
from collections.abc import Iterator

import pytest
from mindscope.dashboard import start_in_thread
from mindscope.storage import open_store

from tests.dashboard.wide import SINCE, SLOW, recorder, stacks

from .browsing import Watched, watched_page

pytestmark = pytest.mark.browser
DRAWN = "#ranks-heat .heatmaplayer image"
PICTURE = "#ranks-topology-graph .heatmaplayer image"
GRAPH = "document.querySelector('#ranks-topology-graph .js-plotly-plot')"


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> Iterator[tuple[str, object]]:
    """A dashboard over a run of which half is written, and its recorder."""
    folder = str(tmp_path_factory.mktemp("wide") / "runs")
    with open_store(folder) as store:
        rolling = recorder(store)
        for stack in stacks(SINCE):
            rolling.add_step(stack)
        rolling.flush()
        with start_in_thread(folder) as server:
            yield server.url.partition("?")[0], rolling
        rolling.close()


@pytest.fixture
def watched(browser, live, request) -> Iterator[Watched]:
    with watched_page(browser, live[0], getattr(request, "param", "light")) as watched:
        yield watched


@pytest.mark.parametrize("watched", ["light", "dark"], indirect=True)
def test_512_ranks_are_drawn_by_host_and_nothing_complains(watched):
    watched.open("/ranks?run=wide", DRAWN)
    said = watched.settled()
    for words in ("512", "64 × host, 64 × data, 8 × tensor", "Rank × step", "Who waited for whom", "Communication"):
        assert words in said
    assert watched.nameless() == []
    assert watched.complaints == []


def test_rows_can_be_those_of_the_mesh_and_the_address_keeps_them(watched):
    watched.open("/ranks?run=wide", DRAWN)
    watched.settled()
    watched.page.click("#ranks-rows")
    watched.page.click("[role=option]:visible:has-text('tensor')")
    watched.wait("document.querySelector('#ranks-heat .js-plotly-plot').data[0].y.length === 8")
    assert "rows=tensor" in watched.page.url
    assert watched.complaints == []


def test_a_rank_that_becomes_slow_is_named_on_the_first_screen_without_a_reload(watched, live):
    watched.open("/ranks?run=wide", DRAWN)
    assert f"Rank {SLOW} " not in watched.settled()
    for stack in stacks(6, first=SINCE):
        live[1].add_step(stack)
    live[1].flush()
    watched.page.wait_for_selector(f"#ranks-verdict :text('Rank {SLOW} (host node-27')")
    answer = watched.page.locator("#ranks-verdict")
    assert f"since step {SINCE}" in answer.inner_text()
    box = answer.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < watched.page.viewport_size["height"]
    assert watched.complaints == []
    outline = f"JSON.stringify({GRAPH}.layout.shapes.map((shape) => [shape.x0 + 0.5, shape.y0 + 0.5]))"
    watched.wait(f"{outline} === '[[{SLOW // 8},{SLOW % 8}]]'")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("watched", ["light", "dark"], indirect=True)
def test_the_picture_of_the_hosts_fits_the_page_and_says_who_a_cell_is(watched, width):
    watched.page.set_viewport_size({"width": width, "height": 1060})
    watched.open("/ranks?run=wide", PICTURE)
    assert "Each cell is a rank" in watched.settled()
    assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    watched.page.locator(PICTURE).last.scroll_into_view_if_needed()
    box = watched.page.locator(PICTURE).last.bounding_box()
    answer = watched.page.locator("#ranks-verdict").bounding_box()
    assert box["y"] > answer["y"] + answer["height"]
    for nudge in (0.4, 0.5):
        watched.page.mouse.move(box["x"] + box["width"] * (27 + nudge) / 64, box["y"] + box["height"] * 3.5 / 8)
    said = watched.page.locator("#ranks-topology-graph .hoverlayer").text_content
    watched.wait("document.querySelector('#ranks-topology-graph .hoverlayer').textContent.includes('rank 219')")
    assert "data 27" in said()
    assert watched.complaints == []


def test_the_picture_keeps_its_zoom_while_steps_arrive_and_its_choices_in_the_address(watched, live):
    watched.open("/ranks?run=wide", PICTURE)
    watched.settled()
    watched.page.click("#ranks-topology-cells label:has-text('divergence')")
    watched.wait(f"{GRAPH}.data[1].colorbar.ticktext.includes('agrees')")
    assert "cells=divergence" in watched.page.url
    watched.page.click("#ranks-topology-cells label:has-text('work')")
    watched.wait(f"{GRAPH}.data[1].colorbar.ticktext.includes('the median')")
    watched.settled()
    before = watched.page.evaluate(
        f"Plotly.relayout({GRAPH}, {{'xaxis.range': [20, 34]}}).then(() => {GRAPH}.data[1].z)"
    )
    for stack in stacks(6, first=SINCE + 6):
        live[1].add_step(stack)
    live[1].flush()
    watched.wait(f"JSON.stringify({GRAPH}.data[1].z) !== {json.dumps(json.dumps(before))}")
    assert watched.page.evaluate(f"{GRAPH}.layout.xaxis.range") == [20, 34]
    assert watched.complaints == []
