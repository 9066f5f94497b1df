"""The Dash application over a store: shell, pages, and what happens when a page fails."""

import logging

import dash
import flask
from dash import ClientsideFunction, Input, Output, State
from dash.development.base_component import Component
from werkzeug.exceptions import HTTPException

from ..storage import InvalidName, RunNotFound, Store, StoreError
from .address import BadAddress, PageAddress
from .components.page_parts import notice
from .components.shell import ShellIds, navigation, shell, titled
from .downloads import serve_downloads
from .formatting import prose
from .media_files import serve_media
from .page_registry import Page, address_of
from .pages import PAGES
from .pages.error_pages import bad_address, unknown_page, unknown_run, unreadable_store
from .prometheus_endpoint import serve_metrics
from .queries.reader import Reader
from .security import NotAllowed, add_headers, protect
from .settings import Settings
from .static_answers import HEAD, RENDERER, REST, needed_scripts, serve_health, serve_static
from .theme import SCHEME_SHOWN

_log = logging.getLogger(__name__)


def create_app(store: Store, settings: Settings | None = None) -> dash.Dash:
    """Create the application; its `server` is a Flask application that any WSGI server can serve."""
    settings = settings or Settings()
    reader = Reader(store)
    server = _server(settings)
    app = _Application(
        "mindscope.dashboard",
        server=server,
        assets_folder=f"{__file__.rpartition('app.py')[0]}assets",
        index_string=HEAD + REST,
        title="mindscope",
        update_title=None,
        suppress_callback_exceptions=True,
        serve_locally=True,
        compress=False,
        add_log_handler=False,
        on_error=_on_error,
    )
    app.renderer = RENDERER
    server.before_request(reader.begin_answer)
    server.teardown_request(lambda _: reader.end_answer())
    _connect_shell(app, reader)
    for page in PAGES.values():
        page.connect(app, reader)
    app.layout = shell(reader.location, _ticks(app))
    serve_downloads(server, reader)
    serve_media(server, reader)
    serve_metrics(server, reader)
    serve_static(server)
    _answer_unknown_addresses(server, reader)
    add_headers(server, tuple(app.csp_hashes()))
    return app


def _ticks(app: dash.Dash) -> list[str]:
    """Return the ids of all intervals that call the server, so that the browser can hold them."""
    inputs = [end for call in app.callback_map.values() for end in call["inputs"]]
    return sorted({end["id"] for end in inputs if end["property"] == "n_intervals"})


class _Application(dash.Dash):  # type: ignore[misc]  # Dash has no types that mypy is shown
    """Dash, with fewer scripts in its document."""

    def interpolate_index(self, **parts: str) -> str:
        """Return the HTML document of the first answer."""
        document: str = super().interpolate_index(**{**parts, "scripts": needed_scripts(parts["scripts"])})
        return document


def _server(settings: Settings) -> flask.Flask:
    """Create the Flask application with its guards in front, before Dash adds its routes."""
    server = flask.Flask("mindscope.dashboard", static_folder=None)
    server.config["MAX_CONTENT_LENGTH"] = 4 * 1024 * 1024
    protect(server, settings)
    serve_health(server)

    @server.errorhandler(Exception)
    def fail(error: Exception) -> flask.typing.ResponseReturnValue:
        """Answer with one line about the error; the trace goes to the log, never to the browser."""
        if isinstance(error, HTTPException):
            return error
        if isinstance(error, StoreError):
            return _plain(f"the store cannot be read: {error}", 503)
        _log.warning("refused a request that could not be understood: %s", flask.request.path, exc_info=error)
        return _plain("this request could not be understood", 400)

    return server


def _plain(words: str, status: int) -> flask.Response:
    return flask.Response(words + "\n", status=status, mimetype="text/plain")


def page_at(reader: Reader, pathname: str | None, search: str | None) -> tuple[int, PageAddress, Component]:
    """Return HTTP status, address and content for a URL; never raise for anything in the URL or the store."""
    path = (pathname or "/").strip("/")
    try:
        address = address_of(pathname, search)
    except BadAddress as error:
        return 400, PageAddress(path), bad_address(str(error), path if path in PAGES else "")
    if path not in PAGES:
        return 404, address, unknown_page(path)
    try:
        return 200, address, PAGES[path].layout(reader, address)
    except RunNotFound:
        return (404 if address.run else 200), address, unknown_run(reader, address)
    except StoreError as error:
        _log.warning("page %r cannot be shown: %s", path, error)
        return 503, address, unreadable_store(str(error))


def _connect_shell(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(ShellIds.content, "children"),
        Output(ShellIds.navigation, "children"),
        Output(ShellIds.shown, "data"),
        Output(ShellIds.banner, "children"),
        Output(ShellIds.title, "data"),
        Input(ShellIds.url, "pathname"),
        Input(ShellIds.url, "search"),
        Input(ShellIds.scheme, "data"),
        State(ShellIds.shown, "data"),
    )
    def show(pathname: str | None, search: str | None, scheme: str, shown: list[str] | None) -> tuple[object, ...]:
        """Lay out the page unless it is already shown: a page that changes its own address records that in `shown`."""
        key = _key(reader, pathname, search, scheme)
        if key is not None and key == shown:
            raise dash.exceptions.PreventUpdate
        SCHEME_SHOWN.set(scheme)
        status, address, content = page_at(reader, pathname, search)
        shown_page = PAGES[address.page] if status == 200 else None
        content, title = titled(shown_page, _run_name(reader, shown_page, address), content)
        return content, navigation(address), key, None, title

    app.clientside_callback(ClientsideFunction("mindscope", "titleTab"), Input(ShellIds.title, "data"))
    app.clientside_callback(ClientsideFunction("mindscope", "holdTicks"), Input(ShellIds.ticks, "data"))
    app.clientside_callback(
        ClientsideFunction("mindscope", "scheme"),
        Output(ShellIds.scheme_choice, "data"),
        Output(ShellIds.scheme, "data"),
        Output(ShellIds.provider, "forceColorScheme"),
        Input(ShellIds.scheme_button, "n_clicks"),
        Input(ShellIds.scheme_choice, "modified_timestamp"),
        State(ShellIds.scheme_choice, "data"),
        State(ShellIds.scheme, "data"),
    )


def _run_name(reader: Reader, shown: Page | None, address: PageAddress) -> str:
    """Return the name of the run that the page is about; empty when it is about all, or there is none."""
    if shown is None or not shown.needs_run:
        return ""
    try:
        run = reader.find(address.run)
    except StoreError:
        return ""
    return run.name or run.id


def _key(reader: Reader, pathname: str | None, search: str | None, scheme: str) -> list[str] | None:
    """Return what identifies the page shown: page, run, colours and query; None for an address that leads nowhere."""
    try:
        address = address_of(pathname, search)
        needs_run = address.page in PAGES and PAGES[address.page].needs_run
        return [address.page, reader.find(address.run).id if needs_run else "", scheme, search or ""]
    except (BadAddress, StoreError):
        return None


def _answer_unknown_addresses(server: flask.Flask, reader: Reader) -> None:
    """Answer an address that leads nowhere with 404 or 400; its page explains the rest."""

    @server.after_request
    def mark(answer: flask.Response) -> flask.Response:
        path = flask.request.path
        is_page = flask.request.method == "GET" and answer.mimetype == "text/html" and answer.status_code == 200
        if is_page and not path.startswith(("/_", "/assets/")):
            answer.status_code = _status_of(reader, path, flask.request.query_string.decode("utf-8", "replace"))
        return answer


def _status_of(reader: Reader, path: str, query: str) -> int:
    try:
        address = address_of(path, query)
        if address.page not in PAGES:
            return 404
        if address.run:
            reader.find(address.run)
    except BadAddress:
        return 400
    except RunNotFound:
        return 404
    except StoreError:
        return 503
    return 200


# Dash hands over whatever was raised and takes anything as outputs; None leaves them as they are.
def _on_error(error: Exception) -> None:
    if isinstance(error, NotAllowed | InvalidName):
        words = prose(str(error))
    elif isinstance(error, RunNotFound):
        words = "This run is no longer in the store. Choose another one."
    elif isinstance(error, StoreError):
        words = f"The store cannot be read at the moment: {error}"
    else:
        words = "Something went wrong on this page; see the server's log. The run is not affected."
    _log.warning("a callback failed: %s", error, exc_info=not isinstance(error, StoreError))
    dash.set_props(ShellIds.banner, {"children": notice(words)})
