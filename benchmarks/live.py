"""The dashboard over a run that is being written: what a tick brings and costs, and what twenty viewers do."""

import json
import multiprocessing
import os
import statistics
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from chromium import Watching
from playwright.sync_api import Browser
from rows import at_most
from servers import Dashboard
from spiked import METRIC, train

_SERIES = 100
_PERIOD_S = 0.05
_VIEWERS = 20

Rows = list[dict[str, Any]]


class Writer:
    """A training in a process of its own that writes twenty steps a second; ends with the block."""

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=train, args=(str(folder), _SERIES, _PERIOD_S, other))
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that spin would be counted as work of the step
        self._process.start()
        self.run: str = self._pipe.recv()
        time.sleep(1.0)

    def steps(self) -> tuple[int, list[float]]:
        """The step just written, and the seconds of processor of each step since the last question."""
        self._pipe.send("times")
        step, times = self._pipe.recv()
        return step, times

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.send("stop")
        self._process.join(timeout=30)


class Viewer(threading.Thread):
    """A person's browser, as far as the server notices: a tick a second, every third time the map as well."""

    def __init__(self, server: Dashboard, run: str, wait_s: float) -> None:
        super().__init__(daemon=True)
        self._server, self._asked, self._wait_s = server.another(), {"live-run": run}, wait_s
        self._is_over = threading.Event()
        self.latencies_ms: list[float] = []

    def run(self) -> None:
        """Looks until `leave` is called."""
        self._is_over.wait(self._wait_s)
        cursor: object = None
        for look in range(10_000):
            begin = time.perf_counter()
            tick = {"live-tick": look, "live-cursor": cursor, "live-scalar": "loss", "live-scale": "linear"}
            answer = self._timed("live-cursor.data", tick)
            cursor = json.loads(answer)["response"]["live-cursor"]["data"] if answer else cursor
            if look % 3 == 0:
                self._timed("live-heat.figure", {"live-maps": [METRIC], "live-view": "deviation", "live-beat": look})
            if self._is_over.wait(max(0.0, 1.0 - (time.perf_counter() - begin))):
                return

    def _timed(self, output: str, asked: dict[str, object]) -> bytes:
        begin = time.perf_counter()
        answer = self._server.call(output, {**asked, **self._asked})
        self.latencies_ms.append((time.perf_counter() - begin) * 1e3)
        return answer

    def leave(self) -> None:
        """Ends the looking."""
        self._is_over.set()
        self.join(timeout=30)
        self._server.hang_up()


def ticking(browser: Browser, server: Dashboard, run: str, seconds: float) -> Rows:
    """What a page that is open on the run receives, and what that costs the server."""
    page = Watching(browser, server, run)
    page.watch(3.0)
    page.ticks.clear()
    page.others.clear()
    begin, spent = time.perf_counter(), server.processor_s()
    page.watch(seconds)
    wall = time.perf_counter() - begin
    share = (server.processor_s() - spent) / wall * 100
    page.close()
    quiet = _looking(server, run, max(10, int(seconds * 2)))
    return [
        at_most(10.0, "live", "bytes of a tick", statistics.median(page.ticks) / 1e3, "KB"),
        at_most(None, "live", "bytes a second, pictures too", sum(page.ticks + page.others) / wall / 1e3, "KB"),
        at_most(1.0, "live", "server, one tick a second", quiet, "% of a core"),
        at_most(None, "live", "server, pictures too", share, "% of a core"),
    ]


def _looking(server: Dashboard, run: str, looks: int) -> float:
    """Per cent of a core that one tick a second takes; asked twice a second, while the run is written."""
    asked: dict[str, object] = {"live-run": run, "live-scalar": "loss", "live-scale": "linear"}
    spent = server.processor_s()
    for look in range(looks):
        answer = server.call("live-cursor.data", {**asked, "live-tick": look})
        asked["live-cursor"] = json.loads(answer)["response"]["live-cursor"]["data"]
        time.sleep(0.5)
    return (server.processor_s() - spent) / looks * 100


def write_to_pixel(browser: Browser, server: Dashboard, writer: Writer, repeats: int) -> Rows:
    """Seconds from a step's transaction to its point in the browser, asked at any moment between two ticks."""
    page = Watching(browser, server, writer.run)
    random = np.random.default_rng(0)
    times = []
    for _ in range(repeats):
        page.watch(float(random.uniform(0.2, 1.2)))
        step, _times = writer.steps()
        times.append(page.shows(step))
    page.close()
    return [
        at_most(1.5, "live", "write to pixel, median", statistics.median(times), "s"),
        at_most(None, "live", "write to pixel, longest", max(times), "s"),
    ]


def crowd(server: Dashboard, writer: Writer, rounds: int, seconds: float) -> Rows:
    """Twenty viewers at once, and the writer with and without them, turn by turn."""
    latencies: list[float] = []
    means: dict[str, list[float]] = {"alone": [], "watched": [], "control": []}
    for _ in range(rounds):
        for name in means:
            viewers = [Viewer(server, writer.run, at / _VIEWERS) for at in range(_VIEWERS if name == "watched" else 0)]
            for viewer in viewers:
                viewer.start()
            writer.steps()
            time.sleep(seconds)
            means[name].append(statistics.median(writer.steps()[1]))
            for viewer in viewers:
                viewer.leave()
                latencies += viewer.latencies_ms
    ratio = {name: statistics.median(means[name]) / statistics.median(means["alone"]) for name in means}
    return [
        at_most(500, "twenty viewers", "answer, 95 of 100 within", float(np.percentile(latencies, 95)), "ms"),
        at_most(1.01, "twenty viewers", "writer's step, processor", ratio["watched"], "ratio"),
        at_most(None, "twenty viewers", "control: nobody / nobody", ratio["control"], "ratio"),
    ]


def live_results(folder: Path, browser: Browser, quick: bool) -> Rows:
    """Everything about a run that is being written."""
    with Writer(folder) as writer, Dashboard(folder) as server:
        server.wait()
        rows = ticking(browser, server, writer.run, 4.0 if quick else 15.0)
        rows += write_to_pixel(browser, server, writer, 3 if quick else 20)
        return rows + crowd(server, writer, 1 if quick else 5, 2.0 if quick else 6.0)
