"""What answers while the pages are being imported: the loss of a run at once, everything else when they are there.

Importing Dash and building the pages takes longer than anything that a visitor waits for afterwards. So the server
listens before: a run's page begins with its loss and lets the browser read the longest script, and the rest of the same
answer follows as soon as the pages can give it.
"""

import importlib.util
import logging
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import flask
from werkzeug.wrappers import Response

from ..storage import RunNotFound, Store, StoreError
from .document import HEAD, PLOTLY, RENDERER
from .glimpse import glimpse
from .health import serve_health
from .security import add_headers, hash_of, protect
from .settings import Settings
from .static import serve_static

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_log = logging.getLogger(__name__)
_PAGE: Final = "/run"


class Opening:
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
        """Comes back when the pages are there; raises what stopped them."""
        self._pages.result()

    def fail_if_broken(self) -> None:
        """Raises what stopped the pages from being made, if something did."""
        if self._pages.done():
            self._pages.result()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> "Iterable[bytes]":
        """Answers at once what needs no pages, and waits for them with the rest.

        The script is asked for before the document is whole: Dash, which knows its scripts once it has made a document,
        might not know it yet.
        """
        path, is_looking = environ["PATH_INFO"], environ["REQUEST_METHOD"] == "GET"
        if is_looking and (path in (_PAGE, PLOTLY) or (path == "/healthz" and not self._pages.done())):
            return self._early(environ, start_response)
        return self._pages.result()(environ, start_response)


def _early(store: Store, settings: Settings, pages: "Future[WSGIApplication]") -> flask.Flask:
    """The guarded application that needs neither Dash nor its pages."""
    server = flask.Flask("mindscope.dashboard.opening", static_folder=None)
    protect(server, settings)
    add_headers(server, (hash_of(RENDERER),))
    serve_health(server)
    serve_static(server)

    @server.get(PLOTLY)
    def plotly() -> flask.Response:
        return flask.send_file(_plotly_script(), mimetype="text/javascript")

    @server.get(_PAGE)
    def run() -> flask.typing.ResponseReturnValue:
        asked = flask.request
        first = _first_picture(store, asked.args.to_dict())
        if first is None:
            return Response.from_app(pages.result(), asked.environ)
        return flask.Response(_document(first, pages, dict(asked.environ)), mimetype="text/html")

    return server


def _first_picture(store: Store, said: dict[str, str]) -> str | None:
    """The glimpse of the run that the address names; None when it says more than that, or leads nowhere."""
    if set(said) - {"run"}:
        return None
    try:
        return glimpse(store, store.find_run(said.get("run") or "latest"))
    except (RunNotFound, StoreError) as error:
        _log.debug("no glimpse of %r: %s", said, error)
        return None


def _document(first: str, pages: "Future[WSGIApplication]", environ: "WSGIEnvironment") -> Iterator[str]:
    yield HEAD + first
    whole = Response.from_app(pages.result(), environ).get_data(as_text=True)
    head, _, rest = whole.partition("<body>")
    yield rest if rest else _unreadable(head)


def _unreadable(words: str) -> str:
    """What the pages said instead of a document, in one line."""
    plain = re.sub(r"[<>&]", " ", words).strip()
    return f"<p>{plain}</p></body></html>"


def _plotly_script() -> Path:
    """The file of plotly.js in the installed package, found without importing it."""
    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise FileNotFoundError("plotly is not installed; pip install mindscope brings it")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"
