"""A page of a real Chromium of which every complaint and every request is noted."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

#: What a page still waits for, seen from the document: nothing, when it is drawn.
_LOADING = "document.querySelector('[data-dash-is-loading=true], .opening') !== null"
#: Everything that takes the focus and is seen, but has neither words, nor a label, nor a title.
_NAMELESS = """
[...document.querySelectorAll("a[href], button, input, select, textarea, [tabindex]:not([tabindex='-1'])")]
  .filter((one) => one.offsetParent && !one.disabled && one.tabIndex >= 0)
  .filter((one) => !one.closest("[class*=ag-], .js-plotly-plot"))
  .filter((one) => {
    const labels = [...(one.labels || [])].map((label) => label.textContent).join("");
    const by = document.getElementById(one.getAttribute("aria-labelledby") || " ");
    const said = [one.getAttribute("aria-label"), one.title, labels, one.textContent, by && by.textContent];
    return !said.some((words) => words && words.trim());
  })
  .map((one) => one.outerHTML.slice(0, 160))
"""
_QUIET_LOOKS = 3
_PATIENCE_S = 60


class Watched:
    """A page that is opened, clicked through and listened to."""

    def __init__(self, page: "Page", url: str) -> None:
        self.page, self.url, self.complaints = page, url, []
        self._asked: set[Request] = set()
        page.on("console", lambda said: self._note(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("request", self._request)
        for end in ("requestfinished", "requestfailed"):
            page.on(end, lambda request: self._asked.discard(request))
        page.on("response", lambda answer: self._note(answer.url) if answer.status >= 400 else None)

    def _note(self, words: str) -> None:
        self.complaints.append(words)

    def _request(self, request: "Request") -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self._note(f"a request left the machine: {request.url}")
        if not request.url.startswith(("data:", "blob:")):
            self._asked.add(request)

    def open(self, path: str, selector: str) -> None:
        self.page.goto(self.url.rstrip("/") + path)
        self.page.wait_for_selector(selector, state="attached")

    def visit(self, title: str) -> str:
        """Chooses a page in the navigation; its words once everything on it has been answered and drawn."""
        self.page.click(f".nav-link:text-is('{title}')")
        here = "(document.querySelector('.nav-link.here') || {}).textContent"
        self.wait(f"{here} === '{title}'")
        return self.settled()

    def settled(self) -> str:
        """The words of the page, once nothing more is asked for and nothing is waited for."""
        deadline, quiet = time.monotonic() + _PATIENCE_S, 0
        while quiet < _QUIET_LOOKS:
            waiting = [one.url for one in self._asked]
            assert time.monotonic() < deadline, f"the page is not done after {_PATIENCE_S} s: {waiting}"
            self.page.wait_for_timeout(25)
            quiet = 0 if self._asked or self.page.evaluate(_LOADING) else quiet + 1
        return self.page.text_content("#content") or ""

    def nameless(self) -> list[str]:
        """What the keyboard can reach on the page and no name is read out of."""
        return list(self.page.evaluate(_NAMELESS))

    def wait(self, claim: str) -> None:
        """Comes back once the claim holds; Playwright's own way needs `eval`, which the page's policy forbids."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.page.evaluate(claim):
            assert time.monotonic() < deadline, f"did not come true in {_PATIENCE_S} s: {claim}"
            self.page.wait_for_timeout(50)

    def click_until(self, box: dict[str, float], claim: str) -> None:
        """Clicks into the middle, as a hand does, until the claim holds: a map that is being redrawn takes no click."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.page.evaluate(claim):
            assert time.monotonic() < deadline, f"no click led to this in {_PATIENCE_S} s: {claim}"
            for nudge in (0.5, 0.51):
                self.page.mouse.move(box["x"] + box["width"] * nudge, box["y"] + box["height"] / 2)
            self.page.mouse.click(box["x"] + box["width"] * 0.51, box["y"] + box["height"] / 2)
            self.page.wait_for_timeout(100)


@contextmanager
def watched_page(browser: "Browser", url: str, scheme: str) -> Iterator[Watched]:
    """A page in one of the colour schemes; what it complained of fails the test at its end."""
    context = browser.new_context(viewport={"width": 1400, "height": 1060}, color_scheme=scheme)
    context.set_default_timeout(1000 * _PATIENCE_S)
    watched = Watched(context.new_page(), url)
    yield watched
    context.close()
    assert watched.complaints == []
