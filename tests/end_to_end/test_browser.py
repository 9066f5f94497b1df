"""A person opens the dashboard in a real Chromium while a run is being written, and looks at everything."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mindscope.cli import main
from mindscope.cli.demo.faults import FAULTS
from mindscope.dashboard import start_in_thread
from mindscope.dashboard.pages import PAGES
from mindscope.storage import Run, Store, open_store

from tests.dashboard.recorded import write_evaluation

sync_api = pytest.importorskip("playwright.sync_api", reason="no browser: playwright is not installed")

pytestmark = pytest.mark.browser

_ARGUMENTS = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
#: Where the picture of the readme is, and whether it is to be taken anew; normal runs leave it alone.
PICTURE = Path(__file__).parents[2] / "docs" / "dashboard.png"
IS_WRITING_DOCS = bool(os.environ.get("MINDSCOPE_WRITE_DOCS"))
FAULT = "nan-at-layer"
BAD_SITE, BAD_STEP = FAULTS[FAULT].sites["transformer"], FAULTS[FAULT].step
CURVE = "document.querySelector('#live-curve .js-plotly-plot').data[0].x"


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no browser: neither chromium nor google-chrome is on the path")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS))
        yield browser
        browser.close()


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
def training(tmp_path_factory) -> Iterator[Training]:
    """A store with a bad run and its evaluation, in which another run is being written; `url` is its dashboard."""
    folder = tmp_path_factory.mktemp("store") / "runs"
    with open_store(str(folder)) as store:
        write_evaluation(store, train_badly(store))
        training = Training(store)
        with start_in_thread(str(folder)) as server:
            training.url = server.url
            yield training
            training.stop()


class Watched:
    """A page of which every complaint and every request is noted."""

    def __init__(self, page, url: str) -> None:
        self.page, self.url, self.complaints = page, url, []
        page.on("console", lambda said: self._note(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("request", lambda request: self._request(request.url))
        page.on("response", lambda answer: self._note(answer.url) if answer.status >= 400 else None)

    def _note(self, words: str) -> None:
        self.complaints.append(words)

    def _request(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self._note(f"a request left the machine: {url}")

    def open(self, path: str, selector: str) -> None:
        self.page.goto(self.url.rstrip("/") + path)
        self.page.wait_for_selector(selector)

    def wait(self, claim: str) -> None:
        """Comes back once the claim holds; Playwright's own way needs `eval`, which the page's policy forbids."""
        deadline = time.monotonic() + 20
        while not self.page.evaluate(claim):
            assert time.monotonic() < deadline, f"did not come true in 20 s: {claim}"
            self.page.wait_for_timeout(50)

    def click_until(self, box, claim: str) -> None:
        """Clicks into the middle, as a hand does, until the claim holds: a map that is being redrawn takes no click."""
        deadline = time.monotonic() + 20
        while not self.page.evaluate(claim):
            assert time.monotonic() < deadline, f"no click led to this in 20 s: {claim}"
            for nudge in (0.5, 0.51):
                self.page.mouse.move(box["x"] + box["width"] * nudge, box["y"] + box["height"] / 2)
            self.page.mouse.click(box["x"] + box["width"] * 0.51, box["y"] + box["height"] / 2)
            self.page.wait_for_timeout(100)


@pytest.fixture
def watched(browser, training, request) -> Iterator[Watched]:
    scheme = getattr(request, "param", "light")
    context = browser.new_context(viewport={"width": 1400, "height": 1060}, color_scheme=scheme)
    context.set_default_timeout(20_000)
    watched = Watched(context.new_page(), training.url)
    yield watched
    context.close()
    assert watched.complaints == []


SEEN = {
    "": "a.run-link:text-is('gpt-nan')",
    "run": "#live-heat .heatmaplayer image",
    "findings": ".finding",
    "robustness": "#robustness-body .scatterlayer .trace",
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("watched", ["light", "dark"], indirect=True)
def test_every_page_opens_while_a_run_is_written(watched, page):
    watched.open(f"/{page}?run=gpt-nan", SEEN[page])


def test_the_cause_is_on_the_screen_without_a_click(watched):
    watched.open("/run?run=gpt-nan", "#detail-curve .js-plotly-plot .scatterlayer .trace")
    cards = watched.page.inner_text("#live-cards")
    for words in ("Unhealthy", BAD_SITE, "Non-finite activation", f"step {BAD_STEP - 1}"):
        assert words in cards
    watched.page.wait_for_selector(SEEN["run"])
    assert watched.page.input_value("#live-site") == BAD_SITE
    if IS_WRITING_DOCS:
        watched.page.mouse.move(0, 0)
        watched.page.screenshot(path=str(PICTURE))


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
    watched.open("/", SEEN[""])
    watched.page.click("a.run-link:text-is('gpt-nan')")
    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    watched.page.click(".nav-link >> text=Findings")
    watched.page.wait_for_selector(".finding")
    assert "run=" in watched.page.url
    watched.page.go_back()
    watched.page.wait_for_selector("#live-heat .heatmaplayer image")
    watched.page.go_back()
    watched.page.wait_for_selector(SEEN[""])


def test_an_address_that_leads_nowhere_says_so(browser, training):
    page = browser.new_page()
    answer = page.goto(training.url + "run?run=gpt-nam")
    page.wait_for_selector(".empty-title")
    assert answer.status == 404
    assert "gpt-nan" in page.inner_text("#content")
    page.close()
