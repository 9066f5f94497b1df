"""Serves the application: blocking for the command, or in a thread."""

import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

import waitress
from waitress import wasyncore

from ..storage import Store, open_store
from .first_paint import FirstPaintApp
from .settings import Settings, SettingsError, settings_for

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_WAKE_S = 0.5


class Server:
    """A listening dashboard; it closes its store.

    Args:
        ready: Called once, in another thread, when all pages are there.

    Raises:
        SettingsError: The address cannot be listened on.
    """

    def __init__(self, store: Store, settings: Settings, ready: Callable[[], object] | None = None) -> None:
        self._store = store
        self._settings = settings
        self._sockets: dict[int, object] = {}
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        socket_ = _bound(settings.host, settings.port)
        self._first_paint = FirstPaintApp(store, settings, partial(_pages, store, settings, ready))
        self._http = waitress.create_server(
            self._first_paint,
            map=self._sockets,
            sockets=[socket_],
            threads=settings.threads,
            ident=None,
            clear_untrusted_proxy_headers=True,
            expose_tracebacks=False,
        )

    @property
    def url(self) -> str:
        """The address to open, with the token if there is one."""
        return self.link("/")

    def link(self, page: str) -> str:
        """Return the address of a page, `/run?run=latest`, with the token if there is one."""
        host = self._settings.host
        host = socket.gethostname() if host in ("0.0.0.0", "::") else host
        host = f"[{host}]" if ":" in host else host
        separator = "&" if "?" in page else "?"
        token = f"{separator}token={self._settings.token}" if self._settings.token else ""
        return f"http://{host}:{self._http.effective_port}{page}{token}"

    def run(self) -> None:
        """Serve until `stop` is called or Ctrl-C is pressed; raise what stopped the pages from being built."""
        while not self._is_stopping.is_set():
            self._first_paint.fail_if_broken()
            wasyncore.loop(timeout=_WAKE_S, map=self._sockets, count=1)

    def start(self) -> Self:
        """Serve in a thread that does not keep the process alive; return when the pages are ready."""
        self._first_paint.wait()
        self._thread = threading.Thread(target=self.run, name="mindscope-dashboard", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening, end open requests and close the store; a second call does nothing."""
        if self._is_stopping.is_set():
            return
        self._is_stopping.set()
        if self._thread is not None:
            self._http.pull_trigger()
            self._thread.join(timeout=5)
        self._http.task_dispatcher.shutdown(timeout=2)
        wasyncore.close_all(self._sockets, ignore_all=True)
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _bound(host: str, port: int) -> socket.socket:
    """Bind a socket to the first address of the host: `localhost` has two, which would get two different free ports."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SettingsError(f"dashboard host {host!r} is not an address of this machine; use 127.0.0.1") from error
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise SettingsError(
            f"dashboard cannot listen on {host}:{port}: {error.strerror}; choose another port, or 0 for a free one"
        ) from error


def start_in_thread(store_url: str, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> Server:
    """Serve a dashboard over the store in its own thread; stop it when done."""
    return _opened(store_url, settings_for(host, port, token)).start()


def serve(
    store_url: str,
    host: str = "127.0.0.1",
    port: int = 8050,
    token: str | None = None,
    *,
    is_read_only: bool = False,
    announce: Callable[[str], object] | None = None,
    ready: Callable[[], object] | None = None,
) -> None:
    """Serve the dashboard over the store until Ctrl-C, which comes through as `KeyboardInterrupt`.

    Args:
        store_url: What `open_store` takes.
        host: An address that other machines can reach requires a token.
        port: 0 takes a free one.
        token: Required of every visitor if given. Otherwise one is generated: other machines need it to read, this
            machine only to change something.
        is_read_only: Whether changes are refused.
        announce: Called once with the address to open; by default it is printed on stderr.
        ready: Called once, in another thread, when all pages are there; a visitor may come before.
    """
    settings = settings_for(host, port, token, is_read_only=is_read_only)
    with _opened(store_url, settings, ready) as server:
        (announce or _announce)(server.url)
        server.run()


def _opened(store_url: str, settings: Settings, ready: Callable[[], object] | None = None) -> Server:
    store = open_store(store_url, on_damage="log")
    try:
        return Server(store, settings, ready)
    except BaseException:
        store.close()
        raise


def _pages(store: Store, settings: Settings, ready: Callable[[], object] | None) -> "WSGIApplication":
    """Build the pages; imported here because that takes longer than all else, and the server listens meanwhile."""
    from .app import create_app  # noqa: PLC0415

    pages: WSGIApplication = create_app(store, settings).server
    if ready is not None:
        ready()
    return pages


def _announce(url: str) -> None:
    sys.stderr.write(f"mindscope: dashboard on {url}\n")
    sys.stderr.flush()
