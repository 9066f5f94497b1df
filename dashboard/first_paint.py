"""The first paint of a run, sent while Dash and the pages are still being imported.

Importing Dash and building the pages takes longer than anything that a visitor waits for afterwards. So the server
listens before: a run's page begins with its loss as a small HTML document and lets the browser load the longest script;
the rest of the same answer follows as soon as the pages can give it. This module imports neither Dash nor Plotly, and
reads the store itself for the same reason.
"""

import importlib.util
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

import flask
from werkzeug.wrappers import Response

from ..storage import ROOT_SITE, Run, RunNotFound, Store, StoreError
from .formatting import number
from .security import add_headers, hash_of, protect
from .settings import Settings
from .static_answers import HEAD, PLOTLY, RENDERER, serve_health, serve_static

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_POINTS: Final = 600
_WIDTH: Final = 1000.0
_HEIGHT: Final = 200.0
#: Room above the highest value, where what is not finite is marked.
_TOP: Final = 16.0
_STYLE: Final = """
#first-paint { position: fixed; inset: 0 0 0 208px; z-index: 4; padding: 22px 28px; background: #f5f6f8; color: #1d2433;
  font: 14px/1.5 Inter, "Segoe UI", system-ui, sans-serif; }
#first-paint h1 { margin: 0 0 18px; font-size: 21px; line-height: 1.25; }
#first-paint figure { position: relative; margin: 0; padding: 24px 18px 30px 70px; background: #fff;
  border: 1px solid #e3e7ee; border-radius: 12px; }
#first-paint svg { display: block; width: 100%; height: 230px; overflow: visible; }
#first-paint path { fill: none; stroke: #2a62c9; stroke-width: 1.8; vector-effect: non-scaling-stroke; }
#first-paint path.bad { stroke: #c81e78; }
#first-paint path.since { stroke: #c4420a; stroke-dasharray: 3 3; }
#first-paint figure span { position: absolute; color: #5f6b7d; font-size: 11px; }
@media (prefers-color-scheme: dark) {
  #first-paint { background: #0f1319; color: #e6eaf0; }
  #first-paint figure { background: #171c24; border-color: #28303d; }
  #first-paint path { stroke: #7db0ff; }
}
@media (max-width: 860px) { #first-paint { inset: 0; } }
"""


def loss_html(store: Store, run: Run) -> str | None:
    """Draw the run's loss over its steps as HTML, with the first finding marked; None when it has no loss to show."""
    series = store.series(run.id, ROOT_SITE, "scalar/loss", limit=_POINTS)
    steps, values = series.steps.tolist(), series.values.tolist()
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    first, last = steps[0], max(steps[-1], steps[0] + 1)
    xs = [_WIDTH * (step - first) / (last - first) for step in steps]
    ys = [
        _HEIGHT - (_HEIGHT - _TOP) * (value - low) / ((high - low) or 1.0) if isfinite(value) else None
        for value in values
    ]
    drawn = [f'<path d="{_line(xs, ys)}"/>', f'<path class="bad" d="{_marks(xs, ys)}"/>']
    since = min((finding.first_step for finding in store.findings(run.id)), default=None)
    if since is not None and first <= since <= last:
        at = _WIDTH * (since - first) / (last - first)
        drawn.append(f'<path class="since" d="M{at:.1f} 0V{_HEIGHT:g}"/>')
    name = escape(run.name or run.id)
    return (
        f'<div id="first-paint"><style>{_STYLE}</style><h1>{name}</h1><figure>'
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="loss of {name}, from {number(values[0])} to {number(values[-1])}">{"".join(drawn)}</svg>'
        f'<span style="left: 70px; top: 6px">loss</span>'
        f'<span style="left: 18px; top: 28px">{number(high)}</span>'
        f'<span style="left: 18px; bottom: 26px">{number(low)}</span>'
        f'<span style="left: 70px; bottom: 8px">{first:,}</span>'
        f'<span style="right: 18px; bottom: 8px">step {steps[-1]:,}</span></figure></div>'
    )


def _line(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """Return the SVG path through the finite values, broken where a value is not finite."""
    pieces, pen = [], "M"
    for x, y in zip(xs, ys, strict=True):
        if y is not None:
            pieces.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "M" if y is None else "L"
    return "".join(pieces)


def _marks(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """Return a short stroke above the curve for every value that is not finite."""
    return "".join(f"M{x:.1f} 0v8" for x, y in zip(xs, ys, strict=True) if y is None)


_log = logging.getLogger(__name__)
_PAGE: Final = "/run"


class FirstPaintApp:
    """A WSGI application in front of one that is still being made.

    Args:
        make: Makes the pages; called once, in a thread of its own.
    """

    def __init__(self, store: Store, settings: Settings, make: Callable[[], "WSGIApplication"]) -> None:
        builder = ThreadPoolExecutor(1, thread_name_prefix="mindscope-pages")
        self._pages: Future[WSGIApplication] = builder.submit(make)
        builder.shutdown(wait=False)
        self._early = _early(store, settings, self._pages)

    def wait(self) -> None:
        """Wait until the pages are ready; raise what stopped them."""
        self._pages.result()

    def fail_if_broken(self) -> None:
        """Raise the error that stopped the pages from being built, if there is one."""
        if self._pages.done():
            self._pages.result()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> "Iterable[bytes]":
        """Answer at once what needs no pages; wait for the pages for everything else.

        The script is asked for before the document is whole: Dash, which knows its scripts once it has made a document,
        might not know it yet.
        """
        path, is_looking = environ["PATH_INFO"], environ["REQUEST_METHOD"] == "GET"
        if is_looking and (path in (_PAGE, PLOTLY) or (path == "/healthz" and not self._pages.done())):
            return self._early(environ, start_response)
        return self._pages.result()(environ, start_response)


def _early(store: Store, settings: Settings, pages: "Future[WSGIApplication]") -> flask.Flask:
    """Create the guarded application that needs neither Dash nor its pages."""
    server = flask.Flask("mindscope.dashboard.first_paint", static_folder=None)
    protect(server, settings)
    add_headers(server, (hash_of(RENDERER),))
    serve_health(server)
    serve_static(server)

    @server.get(PLOTLY)
    def plotly() -> flask.Response:
        return flask.send_file(_plotly_script(), mimetype="text/javascript")

    @server.get(_PAGE)
    def run() -> flask.typing.ResponseReturnValue:
        request = flask.request
        first = _first_paint_of(store, request.args.to_dict())
        if first is None:
            return Response.from_app(pages.result(), request.environ)
        return flask.Response(_document(first, pages, dict(request.environ)), mimetype="text/html")

    return server


def _first_paint_of(store: Store, query: dict[str, str]) -> str | None:
    """Return the first paint of the run in the address; None when the address asks for more or leads nowhere."""
    if set(query) - {"run"}:
        return None
    try:
        return loss_html(store, store.find_run(query.get("run") or "latest"))
    except (RunNotFound, StoreError) as error:
        _log.debug("no first paint of %r: %s", query, error)
        return None


def _document(first: str, pages: "Future[WSGIApplication]", environ: "WSGIEnvironment") -> Iterator[str]:
    yield HEAD + first
    whole = Response.from_app(pages.result(), environ).get_data(as_text=True)
    head, _, rest = whole.partition("<body>")
    yield rest if rest else _unreadable(head)


def _unreadable(words: str) -> str:
    """Return as one line what the pages answered instead of a document."""
    plain = re.sub(r"[<>&]", " ", words).strip()
    return f"<p>{plain}</p></body></html>"


def _plotly_script() -> Path:
    """Find the file of plotly.js in the installed package without importing it."""
    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise FileNotFoundError("plotly is not installed; pip install mindscope brings it")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"
