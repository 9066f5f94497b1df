"""A person opens the dashboard in a real Chromium while a run is being written, and looks at everything."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from mindscope.cli import main
from mindscope.cli.demo.demo_faults import FAULTS
from mindscope.dashboard import start_in_thread
from mindscope.dashboard.pages import PAGES
from mindscope.storage import Run, Store, open_store

from tests.dashboard.recorded import Plan, write_evaluation, write_run

from .browsing import Watched, watched_page

pytestmark = pytest.mark.browser

FAULT = "nan-at-layer"
BAD_SITE, BAD_STEP = FAULTS[FAULT].sites["transformer"], FAULTS[FAULT].step
CURVE = "document.querySelector('#live-curve .js-plotly-plot').data[0].x"


class Training:
    """The demo's transformer, training in a process of its own until it is told to stop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        known = {run.id for run in store.runs()}
        demo = ("demo", "--model", "transformer", "--steps", "100000", "--no-dashboard", "--store", store.url)
        self._process = subprocess.Popen(
            ["nice", sys.executable, "-m", "mindscope", *demo], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.run_id = wait_for(lambda: next((run.id for run in store.runs() if run.id not in known), None))
        wait_for(lambda: store.find_run(self.run_id).last_step > 0)

    def go_on_for(self, steps: int) -> None:
        """Comes back when so many more steps have been written."""
        goal = self._store.find_run(self.run_id).last_step + steps
        wait_for(lambda: self._store.find_run(self.run_id).last_step >= goal)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(timeout=60) == 130


def wait_for(answer: Callable[[], object]):
    """The answer, once it is one."""
    deadline = time.monotonic() + 90
    while not (found := answer()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def train_badly(store: Store) -> Run:
    """The run that a real training leaves in which one layer begins to put out NaN."""
    demo = ("demo", "--model", "transformer", "--steps", "60", "--fault", FAULT, "--no-dashboard")
    assert main([*demo, "--store", store.url]) == 0
    return store.annotate(store.find_run("latest").id, name="gpt-nan")


@pytest.fixture(scope="module")
def store_url(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("store") / "runs")


@pytest.fixture(scope="module")
def training(store_url) -> Iterator[Training]:
    """A store with a bad run and its evaluation, in which another run is being written; `url` is its dashboard."""
    with open_store(store_url) as store:
        write_evaluation(store, train_badly(store))
        training = Training(store)
        with start_in_thread(store_url) as server:
            training.url = server.url.partition("?")[0]  # a visitor who only looks needs no token
            yield training
            training.stop()


@pytest.fixture
def watched(browser, training) -> Iterator[Watched]:
    with watched_page(browser, training.url, "light") as watched:
        yield watched


def test_the_cause_is_on_the_screen_without_a_click(watched):
    watched.open("/run?run=gpt-nan", "#detail-curve .js-plotly-plot .scatterlayer .trace")
    cards = watched.page.inner_text("#live-cards")
    for words in ("Unhealthy", BAD_SITE, "Non-finite activation", f"step {BAD_STEP - 1}"):
        assert words in cards
    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    assert watched.page.input_value("#live-site") == BAD_SITE


def test_the_curve_grows_and_a_cell_leads_to_its_series(watched, training):
    watched.open(f"/run?run={training.run_id}", "#live-curve .scatterlayer .trace")
    before = watched.page.evaluate(f"{CURVE}.length")
    watched.wait(f"{CURVE}.length > {before + 20}")
    steps = watched.page.evaluate(CURVE)
    assert steps == sorted(set(steps))
    assert steps[-20:] == list(range(steps[-1] - 19, steps[-1] + 1))

    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    box = watched.page.locator("#live-heat .nsewdrag").first.bounding_box()
    watched.click_until(box, "document.querySelector('#live-site').value !== ''")
    watched.page.wait_for_selector("#detail-curve .js-plotly-plot .scatterlayer .trace")
    site = watched.page.input_value("#live-site")
    assert site.startswith("decoder.")
    assert site in watched.page.inner_text("#live-detail")
    assert f"site={site}" in watched.page.url

    watched.page.reload()
    watched.page.wait_for_selector("#detail-curve .js-plotly-plot .scatterlayer .trace")
    assert watched.page.input_value("#live-site") == site


def test_every_page_shows_a_run_that_is_being_written(watched, training):
    watched.open(f"/run?run={training.run_id}", "#live-curve .scatterlayer .trace")
    for page in PAGES.values():
        said = watched.visit(page.title)
        assert len(said) > 40, page.title
        assert watched.page.text_content("#banner") == "", page.title
        assert watched.complaints == [], page.title


def test_a_run_that_is_deleted_while_it_is_watched_is_told(watched, store_url):
    with open_store(store_url) as store:
        run = write_run(store, "short-lived", Plan(steps=20, goes_bad=False, spike_at=None)).id
        watched.open(f"/run?run={run}", "#live-curve .scatterlayer .trace")
        store.delete_run(run)
    watched.wait("document.querySelector('#banner').textContent.includes('no longer in the store')")


def test_the_loss_is_seen_before_any_script_is_there(browser, training):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(training.url + "run?run=gpt-nan")
    assert page.locator("#first-paint svg path").first.is_visible()
    page.context.close()


def test_following_can_be_paused(watched, training):
    watched.open(f"/run?run={training.run_id}", "#live-curve .scatterlayer .trace")
    before = watched.page.evaluate(f"{CURVE}.length")
    watched.wait(f"{CURVE}.length > {before}")
    watched.page.locator("#live-follow").focus()
    watched.page.keyboard.press("Space")
    training.go_on_for(30)  # whatever was on its way when it was paused has arrived
    paused = watched.page.evaluate(f"{CURVE}.length")
    training.go_on_for(60)
    assert watched.page.evaluate(f"{CURVE}.length") == paused
    watched.page.locator("#live-follow").focus()
    watched.page.keyboard.press("Space")
    watched.wait(f"{CURVE}.length > {paused}")


def test_updates_wait_while_a_person_points_into_a_picture(watched, training):
    watched.open(f"/run?run={training.run_id}", "#live-curve .scatterlayer .trace")
    box = watched.page.locator("#live-curve .nsewdrag").first.bounding_box()
    lengths = []
    for nudge in range(8):
        watched.page.mouse.move(box["x"] + 80 + nudge, box["y"] + 40)
        watched.wait("document.querySelector('#held').textContent !== ''")
        training.go_on_for(5)
        lengths.append(watched.page.evaluate(f"{CURVE}.length"))
    assert len(set(lengths[3:])) == 1  # what was on its way at first has arrived
    watched.page.mouse.move(2, 2)
    watched.wait(f"{CURVE}.length > {lengths[-1]}")
    assert watched.page.text_content("#held") == ""


def test_colours_are_chosen_by_keyboard_and_remembered(watched):
    scheme = "document.documentElement.dataset.mantineColorScheme"
    watched.open("/run?run=gpt-nan", "#live-heat .heatmaplayer image")
    before = watched.page.evaluate(scheme)
    watched.page.locator("#scheme-button").focus()
    watched.page.keyboard.press("Enter")
    watched.wait(f"{scheme} !== '{before}'")
    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    watched.page.reload()
    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    assert watched.page.evaluate(scheme) != before


def test_the_way_back_leads_back(watched):
    watched.open("/", "a.run-link:text-is('gpt-nan')")
    watched.page.click("a.run-link:text-is('gpt-nan')")
    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    watched.page.click(".nav-link >> text=Findings")
    watched.page.wait_for_selector(".finding")
    assert "run=" in watched.page.url
    watched.page.go_back()
    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    watched.page.go_back()
    watched.page.wait_for_selector("a.run-link:text-is('gpt-nan')")


def test_an_address_that_leads_nowhere_says_so(browser, training):
    page = browser.new_page()
    answer = page.goto(training.url + "run?run=gpt-nam")
    page.wait_for_selector(".empty-title")
    assert answer.status == 404
    assert "gpt-nan" in page.inner_text("#content")
    page.close()
