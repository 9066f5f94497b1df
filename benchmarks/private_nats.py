"""A NATS server of one's own in a temporary folder, which may be killed, frozen, and cut off from the network."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self


def is_installed() -> bool:
    """Return whether there is a server to start."""
    return shutil.which("nats-server") is not None


def can_cut() -> bool:
    """Return whether network namespaces can be made here."""
    if os.getuid() or shutil.which("ip") is None:
        return False
    name = f"ms{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True).returncode:
        return False
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return True


class PrivateNats:
    """A server with JetStream on a free port of this machine; ends with the block.

    Args:
        is_apart: Whether it runs in a network namespace of its own, behind a link that can be cut.
        options: Further arguments of the server.
    """

    def __init__(self, *, is_apart: bool = False, options: tuple[str, ...] = ()) -> None:
        if not is_installed():
            raise RuntimeError("no NATS server is installed here: apt-get install nats-server")
        self._folder = Path(tempfile.mkdtemp(prefix="mindscope-nats-"))
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._space = f"ms{secrets.token_hex(3)}" if is_apart else ""
        self.host = "127.0.0.1"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    def url(self, project: str = "test") -> str:
        """Return the URL of a project."""
        return f"nats://{self.host}:{self.port}/{project}"

    def __enter__(self) -> Self:
        if self._space:
            self._lay_link()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.crash()
        if self._space:
            _ip("netns", "del", self._space)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and return when it answers."""
        inside = ["ip", "netns", "exec", self._space] if self._space else []
        command = [*inside, "nats-server", "-a", self.host, "-p", str(self.port), "-js", "-sd", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *self._options], stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection((self.host, self.port), 1.0).close()
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    words = (self._folder / "log").read_text()[-2000:]
                    raise RuntimeError(f"the server did not start: {words}") from None
                time.sleep(0.02)
            else:
                return

    def crash(self) -> None:
        """Kill it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def cut(self, seconds: float) -> None:
        """Cut it off from the network for a while; without a link of its own, it is frozen instead."""
        if self._space:
            _ip("link", "set", f"{self._space}0", "down")
            time.sleep(seconds)
            self._raise_link()
        elif self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            self._process.send_signal(signal.SIGCONT)

    def _lay_link(self) -> None:
        """Make the namespace and a link to it, with addresses of this machine alone."""
        third, fourth = secrets.randbelow(250), 4 * secrets.randbelow(63)
        self._outer, self.host = f"10.231.{third}.{fourth + 1}", f"10.231.{third}.{fourth + 2}"
        outer, inner = f"{self._space}0", f"{self._space}1"
        _ip("netns", "add", self._space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", self._space)
        _ip("-n", self._space, "addr", "add", f"{self.host}/30", "dev", inner)
        _ip("-n", self._space, "link", "set", inner, "up")
        _ip("-n", self._space, "link", "set", "lo", "up")
        self._raise_link()

    def _raise_link(self) -> None:
        outer = f"{self._space}0"
        _ip("addr", "replace", f"{self._outer}/30", "dev", outer)
        _ip("link", "set", outer, "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
