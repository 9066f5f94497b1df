"""What the dashboard shows, how fast and at which cost, beside TensorBoard on the same data.

The data is a model of a training: series of noise around 1, each with one spike of a single step 25 times as high, in
a run of 100 and one of 1,000 series. A spike counts as visible when its value is among the points that the server
sends for the span that is looked at. The first plot is the loss that the server draws into the page while Dash is being
imported; the plot with controls, which Plotly draws, comes after it and is the one that a bare Dash page has. Both
servers are processes of their own and are asked over one connection, turn by turn.
"""

import argparse
import base64
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from agreement import agreement_rows
from chromium import bare_plot, chromium, drawing_ms, first_plots
from environment import machine
from live import live_results
from playwright.sync_api import Browser
from rows import at_least, at_most
from servers import Bare, Dashboard, TensorBoard
from spiked import METRIC, Spiked

_STEPS = 10_000
_HEIGHT = 25.0
#: Parts of the run that are looked at: all of it, then ever less around the spike.
_ZOOMS = (1.0, 0.5, 0.1, 0.01)
_VERSIONS = ("dash", "plotly", "dash-mantine-components", "waitress", "tensorboard", "tsdownsample", "playwright")

Rows = list[dict[str, Any]]


def series_call(run: str, site: str, span: str = "") -> tuple[str, dict[str, object]]:
    """The callback that shows one tensor, and what it is asked; `span` as `first-last` step, empty for all."""
    looked_at = {"tensor-run": run, "tensor-metric": METRIC, "tensor-site": site, "tensor-span": span}
    usual = {"tensor-axis": "step", "tensor-log": "none", "tensor-over": "nothing", "scheme": "light"}
    return "tensor-body.children", {**usual, **looked_at}


def heights(answer: bytes) -> float:
    """The largest `y` of any curve in the answer."""
    return max((one for one in _values(json.loads(answer)) if one == one), default=float("nan"))


def _values(part: object) -> Iterator[float]:
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "y" and isinstance(value, list):
                yield from (one for one in value if isinstance(one, int | float))
            elif name == "y" and isinstance(value, dict) and "bdata" in value:
                yield from np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"]).tolist()
            else:
                yield from _values(value)
    elif isinstance(part, list):
        for one in part:
            yield from _values(one)


def spikes(data: Spiked, run: str, server: Dashboard, peer: TensorBoard) -> Rows:
    """Of 100 series, how many show their spike in whatever part of the run one looks at."""
    rows: Rows = []
    chosen = list(zip(data.sites, data.spikes.tolist(), strict=True))[:100]
    for zoom in _ZOOMS:
        width = int(data.steps * zoom)
        mine = theirs = 0
        for site, spike in chosen:
            first = max(0, min(spike - width // 2, data.steps - width))
            mine += heights(server.call(*series_call(run, site, f"{first}-{first + width - 1}"))) == _HEIGHT
            theirs += (spike, _HEIGHT) in list(peer.series(site))
        rows.append(
            at_least(len(chosen), f"{zoom:.0%} of the run", "spikes visible", mine, "of 100", {"TensorBoard": theirs})
        )
    return rows


def turns(repeats: int, mine: Callable[[int], object], theirs: Callable[[int], object]) -> tuple[float, float]:
    """Median milliseconds of both, turn by turn."""
    spent: tuple[list[float], list[float]] = ([], [])
    for at in range(repeats):
        for one, action in zip(spent, (mine, theirs), strict=True):
            begin = time.perf_counter()
            action(at)
            one.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(spent[0]), statistics.median(spent[1])


def answering(data: Spiked, run: str, server: Dashboard, peer: TensorBoard, repeats: int) -> Rows:
    """One series and twelve charts; every question is asked for the first time, so no cache answers."""
    case = f"{len(data.sites)} x {data.steps} points"

    def several(count: int, ask: Callable[[str], object]) -> Callable[[int], object]:
        return lambda at: [ask(data.sites[(at * count + place) % len(data.sites)]) for place in range(count)]

    server.call(*series_call(run, data.sites[-1]))  # the first answer of a server pays for its imports
    rows = []
    for count, metric, target in ((1, "one series over HTTP", 20.0), (12, "twelve charts over HTTP", 150.0)):
        mine, theirs = turns(
            repeats if count == 1 else max(3, repeats // 4),
            several(count, lambda site: server.call(*series_call(run, site))),
            several(count, lambda tag: list(peer.series(tag))),
        )
        rows.append(at_most(target, case, metric, mine, "ms", {"TensorBoard": round(theirs, 2)}))
    return rows


def heat_map(data: Spiked, run: str, server: Dashboard, browser: Browser, repeats: int) -> Rows:
    """The map of all layers: by the server, in bytes, by the browser."""
    case = f"heat map of {len(data.sites)} layers"
    times, size = [], 0
    for at in range(repeats):
        asked = {"live-run": run, "live-maps": [METRIC], "live-view": ("raw", "deviation")[at % 2], "scheme": "light"}
        begin = time.perf_counter()
        size = len(server.call("live-heat.figure", asked))
        times.append((time.perf_counter() - begin) * 1e3)
    return [
        at_most(None, case, "server, first time", times[0], "ms"),
        at_most(100, case, "server", statistics.median(times[1:]), "ms"),
        at_most(2.0, case, "answer", size / 1e6, "MB"),
        at_most(350, case, "browser", statistics.median(drawing_ms(browser, server, run, repeats)), "ms"),
    ]


def browsing(folder: Path, data: Spiked, quick: bool) -> Rows:
    """The list of many runs, cold and warm, and what the server holds after sixty looks at maps of a large run."""
    short = Spiked(10, 200)
    for _ in range(10 if quick else 70):
        short.write_store(folder)
    run = data.write_store(folder)
    case, looks = f"{10 if quick else 70} runs and one of {len(data.sites)} x {data.steps}", 60
    listed = {"url": "/", "scheme": "light"}
    with Dashboard(folder) as server:
        server.wait()
        server.ask("/_dash-dependencies")  # comes when the pages are there
        began, times = server.memory_mib(), []
        for _ in range(5):
            begin = time.perf_counter()
            server.call("content.children", listed)
            times.append(time.perf_counter() - begin)
        for look in range(looks):
            first = look * data.steps // (2 * looks)
            asked = {"layers-run": run, "layers-metric": METRIC, "layers-view": "deviation", "layers-order": "model"}
            span = {"layers-span": f"{first}-{first + data.steps // 2}", "layers-form": "map", "layers-rows": "all"}
            server.call("layers-picture.figure", {**asked, **span, "layers-scale": "linear", "scheme": "light"})
        return [
            at_most(2.0, case, "rows of the list, cold", times[0], "s"),
            at_most(1.0, case, "rows of the list, warm", statistics.median(times[1:]), "s"),
            at_most(200, case, f"memory above the start after {looks} maps", server.memory_mib() - began, "MiB"),
        ]


def at_rest(folder: Path, series: int, browser: Browser, repeats: int, is_largest: bool) -> Rows:
    """Everything about a run that is over."""
    data = Spiked(series, _STEPS)
    run = data.write_store(folder / f"store{series}")
    data.write_events(folder / f"events{series}")
    rows = []
    with ExitStack() as stack:
        peer = stack.enter_context(TensorBoard(folder / f"events{series}"))
        peer.wait_for(series, data.sites[0], _STEPS - 1)
        server = stack.enter_context(Dashboard(folder / f"store{series}"))
        first, curve, whole = first_plots(browser, server, run)
        case = f"{series} x {_STEPS} points"
        with Bare() as bare:
            peers = {"a bare Dash page": round(bare_plot(browser, bare), 2)}
        rows.append(at_most(2.0, case, "process start to first plot", first, "s"))
        rows.append(at_most(None, case, "process start to plot with controls", curve, "s", peers))
        rows.append(at_most(None, case, "process start to heat map", whole, "s"))
        rows += answering(data, run, server, peer, repeats)
        rows += spikes(data, run, server, peer)
        if is_largest:
            rows += heat_map(data, run, server, browser, repeats)
        peers = {"TensorBoard": round(peer.memory_mib(), 1)}
        rows.append(at_most(300, case, "server memory", server.memory_mib(), "MiB", peers))
    return rows


def measure(quick: bool) -> Rows:
    """All results; `quick` leaves out the run of ten million points."""
    rows: Rows = []
    with tempfile.TemporaryDirectory(prefix="mindscope-bench-") as scratch, chromium() as browser:
        for series in (100,) if quick else (100, 1000):
            rows += at_rest(Path(scratch), series, browser, 5 if quick else 30, series == (100 if quick else 1000))
        rows += browsing(Path(scratch) / "browsed", Spiked(100 if quick else 1000, 2000), quick)
        rows += live_results(Path(scratch) / "live", browser, quick)
        rows += agreement_rows(Path(scratch) / "agreement", quick)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="about a minute: without the run of ten million points")
    arguments = parser.parse_args()
    rows = measure(arguments.quick)
    if arguments.json:
        versions = {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}}
        document = {"benchmark": "dashboard", "machine": machine(), "versions": versions, "results": rows}
        json.dump(document, sys.stdout, indent=1)
        print()
        return
    for row in rows:
        print(line(row))


def line(row: dict[str, Any]) -> str:
    """One result as a person reads it."""
    verdict = {True: "ok", False: "MISSED", None: ""}[row["ok"]]
    target = "" if row["target"] is None else f"target {row['target']:g}"
    peers = ", ".join(f"{name} {value:g}" for name, value in row["peers"].items())
    value = f"{row['value']:>10,.2f} {row['unit']:<10}"
    return f"{row['case']:<28} {row['metric']:<30} {value} {target:<12} {verdict:<7} {peers}"


if __name__ == "__main__":
    main()
