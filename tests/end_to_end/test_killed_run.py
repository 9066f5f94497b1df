"""A real Chromium follows a training that stops, and is killed: no news, then crashed; in both kinds of store."""

import signal
from collections.abc import Iterator

import pytest
from mindscope.dashboard import start_in_thread
from mindscope.storage import open_store

from tests.dashboard.recorded import Plan, write_run
from tests.storage.samples import finding

from .browsing import watched_page
from .drawing import Drawing
from .test_browser import wait_for

pytestmark = pytest.mark.browser
#: Lays out the first fold anew, as a page does where something else now stands before it: closed.
ANEW = """(() => {
  const fold = document.querySelector("#content details.fold");
  const fresh = fold.cloneNode(true);
  fresh.open = false;
  fold.replaceWith(fresh);
})()"""
STATUS = "document.querySelector('.status').textContent"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def drawing(request, tmp_path) -> Iterator[Drawing]:
    drawing = Drawing(tmp_path, request.getfixturevalue("postgres_url") if request.param == "postgres" else None)
    drawing.make(0, 1)
    yield drawing
    drawing.process.kill()
    drawing.process.communicate()


def test_a_training_that_stops_has_no_news_and_is_crashed_when_it_is_killed(browser, drawing):
    with open_store(drawing.store) as store:
        wait_for(lambda: store.runs() and store.runs()[0].last_step >= 1)
    with start_in_thread(drawing.store) as server, watched_page(browser, server.url.partition("?")[0], "light") as seen:
        seen.open("/run", "#live-curve .js-plotly-plot")
        seen.wait(f"{STATUS}.includes('running')")
        drawing.process.send_signal(signal.SIGSTOP)
        seen.wait(f"{STATUS}.includes('no news for')")
        assert "running" in seen.page.inner_text(".status")
        drawing.process.kill()
        drawing.process.wait(timeout=60)
        seen.wait("document.querySelector('.status .badge-crashed') !== null")
        seen.open("/", ".runs-grid .badge-crashed")
        seen.open("/media", ".media-image")
        assert "crashed" in seen.page.inner_text(".status")
        assert "newest of 2 steps" in seen.page.inner_text("#media-place")


def test_what_a_person_has_unfolded_stays_open_while_the_run_goes_on(browser, tmp_path):
    with open_store(tmp_path / "runs") as store:
        run = write_run(store, "bad", Plan(steps=200), closes=False)
        with start_in_thread(store.url) as server, watched_page(browser, server.url.partition("?")[0], "light") as seen:
            seen.open(f"/findings?run={run.id}", "#content details.fold summary")
            seen.settled()
            words = seen.page.inner_text("#findings-list")
            assert not seen.page.evaluate("document.querySelector('#content details.fold').open")
            seen.page.click("#content details.fold summary")
            store.write_findings(run.id, [finding(0)])
            seen.wait(f"document.getElementById('findings-list').innerText.length > {len(words) + 20}")
            seen.wait("document.querySelector('#content details.fold').open")
            seen.page.evaluate(ANEW)
            seen.wait("document.querySelector('#content details.fold').open")
            seen.page.click("#content details.fold summary")
            seen.wait("!document.querySelector('#content details.fold').open")
