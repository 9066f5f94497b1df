"""A person in a real Chromium halts a training, and reads what profile, lineage and landscape have to say."""

import os
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from mindscope.dashboard import start_in_thread
from mindscope.storage import open_store

from tests.dashboard.explained import write_explained
from tests.dashboard.profiled import write_profiled
from tests.dashboard.searched import write_search
from tests.dashboard.training import Training

from .browsing import Watched, watched_page

pytestmark = pytest.mark.browser

ALL = bool(os.environ.get("MINDSCOPE_TEST_ALL"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with open_store(str(tmp_path_factory.mktemp("store") / "runs")) as store:
        write_profiled(store)
        write_search(store)
        write_explained(store)
        yield store


@pytest.fixture(scope="module")
def server(store):
    with start_in_thread(store.url) as server:
        yield server


def in_scheme(scheme: str) -> pytest.MarkDecorator:
    """The test in this scheme; in both when all tests are asked for."""
    return pytest.mark.parametrize("watched", ("light", "dark") if ALL else (scheme,), indirect=True)


@pytest.fixture
def watched(browser, server, request) -> Iterator[Watched]:
    with watched_page(browser, server.url.partition("?")[0], request.param) as watched:
        watched.page.goto(server.url)  # its token is what lets this visitor halt a training
        yield watched


def says(selector: str, words: str) -> str:
    return f"(document.querySelector('{selector}')?.textContent || '').includes('{words}')"


@in_scheme("light")
def test_a_training_is_halted_looked_into_and_halted_again_by_a_condition(watched, store):
    with Training(store) as training:
        watched.open(f"/watchpoints?run={training.monitor.run.id}", "#watchpoints-cards .card-good")
        watched.page.click("#watchpoints-pause")
        watched.wait(says("#watchpoints-cards", "Paused after step"))
        watched.page.click("#watchpoints-show")
        watched.wait(says("#watchpoints-shown", "float32 (2, 4)"))
        watched.page.click("#watchpoints-continue")
        watched.wait(says("#watchpoints-cards", "Running"))
        watched.page.fill("#watchpoints-when", "weight/l2_norm @ weight > 0")
        watched.page.keyboard.press("Enter")
        watched.wait(says("#watchpoints-cards", "Paused after step"))
        watched.wait(says("#watchpoints-hits", "weight/l2_norm"))
        assert "when=weight" in watched.page.url


@in_scheme("dark")
def test_what_a_step_is_made_of_is_read_and_a_stretch_is_dragged_typed_and_kept_in_the_address(watched):
    watched.open("/profile?run=profiled", "#profile-split .barlayer .trace")
    watched.wait(says("#profile-cards", "50% of the step"))
    watched.wait(says("#profile-advice", "passes before its forward"))
    watched.page.wait_for_selector("#profile-operators .ag-row")
    box = watched.page.locator("#profile-split .nsewdrag").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    watched.page.mouse.move(box["x"] + box["width"] * 0.3, middle)
    watched.page.mouse.down()
    watched.page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=5)
    watched.page.mouse.up()
    watched.wait("location.search.includes('steps=')")
    (chosen,) = parse_qs(urlsplit(watched.page.url).query)["steps"]
    first, last = map(int, chosen.split("-"))
    assert 0 < first < last < 60
    watched.page.fill("#profile-span", "40-59")
    watched.page.keyboard.press("Enter")
    watched.wait("location.search.includes('steps=40-59')")
    watched.page.reload()
    watched.page.wait_for_selector("#profile-split .barlayer .trace")
    assert watched.page.input_value("#profile-span") == "40-59"


@in_scheme("light")
def test_the_parameter_that_matters_is_on_the_screen_and_runs_are_filtered(watched):
    watched.open("/lineage", "#lineage-importance .barlayer .trace")
    bars = "document.querySelector('#lineage-importance .js-plotly-plot').data[0]"
    assert watched.page.evaluate(f"{bars}.y[0]") == "tag.lr"
    watched.page.fill("#lineage-where", "lr = 0.1")
    watched.page.keyboard.press("Enter")
    watched.wait(says("#lineage-counts", "3 of"))
    assert "where=lr" in watched.page.url
    watched.page.wait_for_selector("#lineage-parallel .scatterlayer .trace")


@in_scheme("dark")
def test_the_way_of_the_training_and_where_its_model_looks_are_drawn(watched):
    watched.open("/landscape?run=explained&sample=10", "#landscape-contours .contourlayer")
    watched.wait(says("#landscape-body", "below the weights"))
    watched.page.wait_for_selector("#landscape-contours .scatterlayer .trace")
    watched.page.wait_for_selector("#landscape-maps .heatmaplayer image")
    watched.wait(says("#landscape-explanations", "Class 3 has the score"))
