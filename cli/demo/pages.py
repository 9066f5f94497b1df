"""The dashboard beside the trainings of the demo."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


class Pages:
    """A served dashboard."""

    def __init__(self, link: Callable[[str], str]) -> None:
        self._link = link
        self.home = link("/")

    def announce(self, run: str, console: Console) -> None:
        """Prints where the live page of a run is."""
        console.print(f"watch it live: {self._link(f'/run?run={run}')}", highlight=False, soft_wrap=True)

    def wait(self, console: Console) -> None:
        """Comes back only by Ctrl-C."""
        console.print(f"still serving {self.home}; Ctrl-C ends it", highlight=False)
        threading.Event().wait()


@contextmanager
def pages(store: str, port: int) -> Iterator[Pages]:
    """The dashboard over `store` on this machine's own address, at `port` or, when that is taken, at a free one."""
    from ...dashboard import start_in_thread

    server = start_in_thread(store, host="127.0.0.1", port=port if _is_free(port) else 0)
    try:
        yield Pages(server.link)
    finally:
        server.stop()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
