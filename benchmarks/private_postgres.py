"""A PostgreSQL server of one's own in a temporary folder, which may be killed."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

#: Settings that widen the time in which a crash takes acknowledged commits back, from 0.6 s to 6 s.
LAZY: Mapping[str, str] = {
    "wal_writer_delay": "2s",
    "wal_writer_flush_after": "64MB",
    "wal_buffers": "64MB",
    "fsync": "off",  # a kill takes what was not handed to the kernel, with it or without it
}


def binaries() -> Path | None:
    """Return the folder of the server's programs; None where there is no server."""
    found = shutil.which("initdb")
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders = [*packaged, *([Path(found).resolve().parent] if found else [])]
    return next((one for one in folders if (one / "initdb").is_file()), None)


class PrivateServer:
    """A server on a free port of this machine, with trust and a database `test`; ends with the block.

    Args:
        settings: Of postgresql.conf.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        programs = binaries()
        if programs is None:
            raise RuntimeError("no PostgreSQL server is installed here: apt-get install postgresql")
        self._programs = programs
        self._settings = dict(settings or {})
        self._folder = Path(tempfile.mkdtemp(prefix="mindscope-postgres-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/test"

    def __enter__(self) -> Self:
        if os.getuid() == 0:
            user = pwd.getpwnam(_user())
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        self._run("initdb", "--pgdata", str(self._data), "--auth", "trust", "--username", "postgres", "--no-sync")
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "test")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.crash()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and return when it answers; after a crash it recovers first."""
        fixed = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self._folder)}
        settings = [word for name, value in {**fixed, **self._settings}.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            command = [*as_user(), str(self._programs / "postgres"), "-D", str(self._data), *settings]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"the server did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def crash(self) -> None:
        """Kill all its processes at once, as a loss of power does."""
        if self._process is None:
            return
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            family = [first, *first.children(recursive=True)]
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            psutil.wait_procs(family, timeout=30)
        self._process.wait(timeout=30)
        self._process = None

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*as_user(), str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)


def _user() -> str:
    """Return a user that is not root, as which alone a server runs."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def as_user() -> list[str]:
    """Return the beginning of a command that runs as a user who is not root."""
    return ["runuser", "-u", _user(), "--"] if os.getuid() == 0 else []
