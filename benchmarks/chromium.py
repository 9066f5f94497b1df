"""What a person sees of the dashboard: a real Chromium, timed."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, Response, sync_playwright
from servers import Bare, Dashboard
from spiked import METRIC

CURVE = "#live-curve .scatterlayer .trace path"
GLIMPSE = "#first-paint svg path"
HEAT = "#live-heat .heatmaplayer image"
_LAST = (
    "(() => { const d = document.querySelector('#live-curve .js-plotly-plot'); return d ? d.data[0].x.at(-1) : -1 })()"
)
#: Parses what the server answered and draws it, until the browser has shown two frames; milliseconds.
_DRAW = """
async (body) => {
  const options = {method: "POST", headers: {"Content-Type": "application/json"}, body};
  const text = await (await fetch("/_dash-update-component", options)).text();
  const begin = performance.now();
  const figure = JSON.parse(text).response["live-heat"].figure;
  const place = document.createElement("div");
  place.style.cssText = "width: 1100px; height: 720px";
  document.body.appendChild(place);
  await window.Plotly.newPlot(place, figure.data, figure.layout);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const spent = performance.now() - begin;
  window.Plotly.purge(place);
  place.remove();
  return spent;
}
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window.

    Raises:
        FileNotFoundError: There is none on the path.
    """
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise FileNotFoundError("neither chromium nor google-chrome is on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


def bare_plot(browser: Browser, server: Bare) -> float:
    """Seconds from the start of the process to the one curve of the bare page."""
    page = browser.new_page(viewport={"width": 1400, "height": 1060})
    server.wait()
    page.goto(server.url, wait_until="commit")
    page.wait_for_selector(CURVE, state="attached", timeout=60_000)
    spent = time.perf_counter() - server.began
    page.close()
    return spent


def first_plots(browser: Browser, server: Dashboard, run: str) -> tuple[float, float, float]:
    """Seconds from the start of the process to the loss as the server draws it, as Plotly does, and to the heat map."""
    page = browser.new_page(viewport={"width": 1400, "height": 1060})
    server.wait()
    page.goto(f"{server.url}/run?run={run}", wait_until="commit")
    times = []
    for drawn in (f"{GLIMPSE}, {CURVE}", CURVE, HEAT):
        page.wait_for_selector(drawn, state="attached", timeout=60_000)
        times.append(time.perf_counter() - server.began)
    page.close()
    first, curve, heat = times
    return first, curve, heat


def drawing_ms(browser: Browser, server: Dashboard, run: str, repeats: int) -> list[float]:
    """Milliseconds that the browser takes for the heat map of the run, from the answer to two frames later."""
    page = browser.new_page(viewport={"width": 1400, "height": 1060})
    page.goto(f"{server.url}/run?run={run}")
    page.wait_for_selector(HEAT, state="attached", timeout=60_000)
    body = server.body("live-heat.figure", {"live-run": run, "live-maps": [METRIC], "live-view": "raw"})
    times = [float(page.evaluate(_DRAW, body)) for _ in range(repeats + 1)]
    page.close()
    return times[1:]


class Watching:
    """A page open on a run that is being written; notes what its ticks bring."""

    def __init__(self, browser: Browser, server: Dashboard, run: str) -> None:
        self._page: Page = browser.new_page(viewport={"width": 1400, "height": 1060})
        self._page.on("response", self._note)
        self.ticks: list[int] = []
        self.others: list[int] = []
        self._page.goto(f"{server.url}/run?run={run}")
        self._page.wait_for_selector(CURVE, state="attached", timeout=60_000)

    def _note(self, answer: Response) -> None:
        if "/_dash-update-component" in answer.url:
            kind = self.ticks if '"live-tick' in (answer.request.post_data or "") else self.others
            kind.append(int(answer.headers.get("content-length", 0)))

    def watch(self, seconds: float) -> None:
        """Looks on for a while."""
        self._page.wait_for_timeout(seconds * 1000)

    def shows(self, step: int, timeout_s: float = 20.0) -> float:
        """Seconds until the curve reaches the step."""
        begin = time.perf_counter()
        while self._page.evaluate(_LAST) < step:
            if time.perf_counter() - begin > timeout_s:
                raise TimeoutError(f"step {step} was not drawn in {timeout_s:g} s")
            self._page.wait_for_timeout(10)
        return time.perf_counter() - begin

    def close(self) -> None:
        """Closes the page."""
        self._page.close()
