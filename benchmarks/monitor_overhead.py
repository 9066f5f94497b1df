"""What a monitor costs a training step, against hooks by hand and other tools; what it takes on disk, and how soon.

    python benchmarks/monitor_overhead.py [--json] [--quick] [--model NAME] [--framework NAME] [--tool NAME]
    python benchmarks/monitor_overhead.py --gpu [--rounds 25] [--json]    # GPT-2 124M in bfloat16 only

Every cell of the table is a process of its own: one copy of the model with the tool and two without take turns of ten
steps, in all orders equally often. A ratio is the processor time of a round of such turns to the mean of the plain
copies' in the same round; its median over the rounds stands in the table, with the interval that holds it with 95 %
confidence. At the end of a round everything that was recorded is in the store.

What other threads of a tool do (writer, SQLite, live diagnosis) is measured in a second in which the monitored copy
trains alone, at the end of each round: what they do by the clock they would do three times as often for each of its
steps while it waits for the others. `turns_ratio` counts what they did among the turns instead; `thread_ratio` counts
the training thread alone.

A target is met by a median that is not above it, and missed where the whole interval is; in between `ok` is null: this
run cannot tell. The control, one plain copy to the other, shows what the machine lets be told at all.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
import torch
from environment import again_with_free_blas, machine
from overhead.disk import bytes_per_observation, seconds_to_a_reader
from overhead.interleave import Ratio
from overhead.process import Cell, Effort, ToolFailed, measure
from overhead.targets import GPU_CASE, GPU_MODEL, GPU_TARGETS, MODELS, NEAREST, PEERS, TARGETS, target_of

_OURS = "mindscope"
_BYTES, _READER_S = 24.0, 1.0
#: By how much the second plain copy may miss the first before the machine is too busy to tell a percent.
_CONTROL = 0.01
_DISTRIBUTIONS = {"msprobe": "mindstudio-probe", "trainscope": "trainscope", "torchmortem": "torchmortem"}
_Result = dict[str, Any]


class Table:
    """Measures cell by cell; what cannot be measured is noted with its reason."""

    def __init__(self, ours: Effort, peers: Effort, tools: list[str] | None) -> None:
        self._ours, self._peers = ours, peers
        self._tools = [name for name in PEERS if tools is None or name in tools]
        self.missing: dict[str, str] = {}

    def rows(self, framework: str, model: str) -> Iterator[_Result]:
        """The results of one model, as they come."""
        for row in TARGETS:
            case = f"{framework} {MODELS[model]}, {row}"
            found = measure(framework, model, _OURS, row, self._ours)
            target = target_of(model, row)
            others = self._others(model, row) if framework == "torch" else {}
            yield _ratio(case, "cpu", found, others, target)
            yield _ratio(case, "thread", found, {}, None)
            yield _ratio(case, "turns", found, {}, None)
            yield _control(case, "cpu", found)
        yield _result(f"{framework} {MODELS[model]}", "plain_step", found.plain_s * 1e3, "ms")

    def rows_on_a_gpu(self) -> Iterator[_Result]:
        """The results of GPT-2 124M; none where there is no GPU, which is said."""
        if not torch.cuda.is_available():
            self.missing[GPU_CASE] = "no CUDA device is here"
            return
        for row, target in GPU_TARGETS.items():
            found = measure("torch", GPU_MODEL, _OURS, row, self._ours)
            others = {NEAREST: measure("torch", GPU_MODEL, NEAREST, row, self._peers)} if row == "everything" else {}
            yield _ratio(f"torch {GPU_CASE}, {row}", "wall", found, others, target)
            yield _control(f"torch {GPU_CASE}, {row}", "wall", found)

    def _others(self, model: str, row: str) -> dict[str, Cell]:
        found = {}
        for name in self._tools:
            if row in PEERS[name] and name not in self.missing:
                try:
                    effort = self._ours if name == NEAREST else self._peers
                    found[name] = measure("torch", model, name, row, effort)
                except ToolFailed as failed:
                    self.missing[name] = str(failed)
        return found


def _ratio(case: str, clock: str, found: Cell, others: dict[str, Cell], target: float | None) -> _Result:
    ratio = found.tool[clock]
    peers = {name: cell.tool[clock] for name, cell in others.items()}
    is_met = None if target is None else verdict(ratio, target, peers.values())
    result = _result(case, f"{clock}_ratio", ratio.value, "monitored/plain", target=target, ok=is_met)
    controls = {name: cell.again[clock].value for name, cell in others.items()}
    result |= {"interval": [ratio.low, ratio.high], "peers": {name: peer.value for name, peer in peers.items()}}
    return result | {"peers_a_a": controls, "steps_per_round": found.steps}


def verdict(ratio: Ratio, target: float, peers: Iterable[Ratio]) -> bool | None:
    """Whether the target is met and every peer undercut; None where the intervals leave both possible."""
    peers = tuple(peers)
    if ratio.low > target or any(ratio.low > peer.high for peer in peers):
        return False
    return True if ratio.value <= target and all(ratio.value < peer.value for peer in peers) else None


def _control(case: str, clock: str, found: Cell) -> _Result:
    control = found.again[clock]
    is_quiet = abs(control.value - 1.0) <= _CONTROL or None
    result = _result(f"{case}: A/A", f"{clock}_ratio", control.value, "plain/plain", ok=is_quiet)
    return result | {"interval": [control.low, control.high]}


def _result(
    case: str, metric: str, value: float, unit: str, *, target: float | None = None, ok: bool | None = None
) -> _Result:
    row = {"case": case, "metric": metric, "value": value, "unit": unit}
    return row | {"limit": None, "peers": {}, "target": target, "ok": ok}


def of_the_store(*, is_quick: bool) -> Iterator[_Result]:
    """What a run takes on disk, and how soon its points are seen."""
    torch.set_num_threads(1)
    name, steps = ("small-mlp", 600) if is_quick else ("small-gpt", 1000)
    size, count = bytes_per_observation(name, steps)
    case = f"run file of {MODELS[name]}, {count} observations of ten statistics"
    target = None if is_quick else _BYTES  # of a short run the empty pages of the file are a third
    yield _result(case, "disk", size, "bytes/observation", target=target, ok=None if is_quick else size <= _BYTES)
    for pause_s in (0.0, 0.7):
        _, largest = seconds_to_a_reader("small-mlp", 3.0 if is_quick else 15.0, pause_s)
        case = f"point visible to a reader, steps of {pause_s:g} s and 2 ms"
        yield _result(case, "largest_delay", largest, "s", target=_READER_S, ok=largest <= _READER_S)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "numpy": np.__version__, "numba": version("numba")}
    for name, distribution in {"torch": "torch", **_DISTRIBUTIONS}.items():
        try:
            found[name] = version(distribution)
        except PackageNotFoundError:
            continue
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--model", choices=list(MODELS), action="append")
    parser.add_argument("--framework", choices=["torch", "engine"], action="append")
    parser.add_argument("--tool", choices=list(PEERS), action="append", help="which peers; all by default")
    parser.add_argument("--gpu", action="store_true", help="only GPT-2 124M in bfloat16, on the GPU that is here")
    parser.add_argument("--rounds", type=int, default=25, help="of turns that a ratio is the median of")
    parser.add_argument("--threads", type=int, default=1, help="of torch and BLAS")
    return parser.parse_args()


def main() -> int:
    options = _options()
    models = options.model or (["small-mlp"] if options.quick else list(MODELS))
    tools = options.tool or ([NEAREST] if options.quick else None)
    ours = Effort(*((0.1, 9) if options.quick else (0.3, options.rounds)), options.threads)
    peers = Effort(*((0.03, 6) if options.quick else (0.1, 7)), options.threads)
    table = Table(ours, peers, tools)
    if options.gpu:
        return _finished(table, [*_said(table.rows_on_a_gpu())], is_json=options.json)
    table.missing.update({name: "is not installed" for name in _DISTRIBUTIONS if find_spec(name) is None})
    results: list[_Result] = []
    for framework in options.framework or (["torch"] if options.quick else ["torch", "engine"]):
        for model in models:
            results += _said(table.rows(framework, model))
    results += _said(chain(table.rows_on_a_gpu(), of_the_store(is_quick=options.quick)))
    return _finished(table, results + again_with_free_blas(), is_json=options.json)


def _finished(table: Table, results: list[_Result], *, is_json: bool) -> int:
    """Say what is missing, print the document, return the exit code."""
    for name, reason in table.missing.items():
        print(f"{name}: {reason}", file=sys.stderr)
    if is_json:
        missing = [{"peer": name, "reason": reason} for name, reason in table.missing.items()]
        gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
        name = "monitor_overhead, on a GPU" if gpu else "monitor_overhead"
        document = {"benchmark": name, "machine": machine() | gpu, "versions": _versions()}
        print(json.dumps(document | {"results": results, "missing": missing}, indent=1))
    return 0 if all(row["ok"] is not False for row in results) else 1


def _said(rows: Iterable[_Result]) -> Iterator[_Result]:
    for row in rows:
        _say(row)
        yield row


def _say(row: _Result) -> None:
    """The row for a person who waits, where no JSON is in the way."""
    peers = "".join(f"  {name} {value:.3f}" for name, value in row["peers"].items())
    low, high = row.get("interval", (row["value"],) * 2)
    ends = f" [{low:.3f}, {high:.3f}]" if low < high else ""
    said = {True: "  ok", False: "  MISSED", None: "" if row["target"] is None else "  cannot be told"}[row["ok"]]
    print(f"{row['case']:48} {row['metric']:12} {row['value']:8.3f}{ends} {row['unit']}{peers}{said}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
