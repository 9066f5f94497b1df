"""The dashboard and TensorBoard as processes of their own, asked over HTTP as their pages ask them."""

import copy
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psutil

_START_S = 300.0


class Server:
    """A process that listens on a port of this machine; ends with the block."""

    def __init__(self, arguments: list[str], script: Path | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.began = time.perf_counter()
        program = ["-m"] if script is None else [str(script)]
        command = [sys.executable, *program, *arguments, "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._connection: http.client.HTTPConnection | None = None

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: str | None = None) -> bytes:
        """What it answers; `body` is JSON."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request("GET" if body is None else "POST", path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{path} answers {answer.status}: {content[:300]!r}")
        return content

    def hang_up(self) -> None:
        """Closes the connection, so that the next question opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def wait(self) -> None:
        """Comes back when it listens."""
        deadline = time.monotonic() + _START_S
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"the server on port {self.port} did not start")
            time.sleep(0.005)

    def another(self) -> Self:
        """The same server over a connection of its own."""
        twin = copy.copy(self)
        twin._connection = None
        return twin

    def memory_mib(self) -> float:
        """Resident memory of the process and its children."""
        return sum(one.memory_info().rss for one in self._family()) / 2**20

    def processor_s(self) -> float:
        """Seconds of processor that the process and its children have taken."""
        return sum(sum(one.cpu_times()[:2]) for one in self._family())

    def _family(self) -> list[psutil.Process]:
        process = psutil.Process(self._process.pid)
        return [process, *process.children(recursive=True)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()
        for process in self._family():
            process.terminate()
        self._process.wait(timeout=30)


class Dashboard(Server):
    """`mindscope dashboard` over a store."""

    def __init__(self, store: Path) -> None:
        super().__init__(["mindscope", "dashboard", str(store)])
        self._calls: dict[str, dict[str, Any]] = {}

    def call(self, output: str, values: dict[str, object]) -> bytes:
        """What a callback answers.

        Args:
            output: One of its outputs, as `live-heat.figure`.
            values: What its inputs and states hold, by id; None for the rest.
        """
        return self.ask("/_dash-update-component", self.body(output, values))

    def body(self, output: str, values: dict[str, object]) -> str:
        """What a browser sends to that callback."""
        call = self._find(output)
        several = call["output"].startswith("..")
        ends = [
            dict(zip(("id", "property"), one.partition("@")[0].rsplit(".", 1), strict=True))
            for one in call["output"].strip(".").split("...")
        ]
        question = {
            "output": call["output"],
            "outputs": ends if several else ends[0],
            "inputs": [{**end, "value": values.get(end["id"])} for end in call["inputs"]],
            "state": [{**end, "value": values.get(end["id"])} for end in call["state"]],
            "changedPropIds": [f"{end['id']}.{end['property']}" for end in call["inputs"][:1]],
        }
        return json.dumps(question)

    def has(self, output: str) -> bool:
        """Whether a callback writes to it."""
        self._learn()
        return any(output in name for name in self._calls)

    def _find(self, output: str) -> dict[str, Any]:
        self._learn()
        return next(call for name, call in self._calls.items() if output in name)

    def _learn(self) -> None:
        if not self._calls:
            self._calls = {
                call["output"]: call
                for call in json.loads(self.ask("/_dash-dependencies"))
                if not call["clientside_function"]
            }


class Bare(Server):
    """A Dash page with one curve, for the share of a start that is not ours."""

    def __init__(self) -> None:
        super().__init__([], script=Path(__file__).with_name("bare.py"))


class TensorBoard(Server):
    """TensorBoard over a folder of event files."""

    def __init__(self, folder: Path) -> None:
        arguments = ["--logdir", str(folder), "--reload_interval", "1"]
        super().__init__(["tensorboard.main", *arguments])

    def wait_for(self, tags: int, tag: str, last_step: int) -> None:
        """Comes back when it has read everything."""
        self.wait()
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            known = json.loads(self.ask("/data/plugin/scalars/tags"))
            if len(known.get(".", ())) >= tags and list(self.series(tag))[-1][0] >= last_step:
                return
            time.sleep(0.2)
        raise RuntimeError("TensorBoard did not read its event files in time")

    def series(self, tag: str) -> Iterator[tuple[int, float]]:
        """Steps and values of one tag, as many as its page gets."""
        answer = self.ask(f"/data/plugin/scalars/scalars?run={quote('.')}&tag={quote(tag)}")
        return ((int(step), float(value)) for _, step, value in json.loads(answer))
