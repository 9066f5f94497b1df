"""Count what the monitor runs in Python between a hook and the store: files, calls, and switches from file to file.

A perceptron of three modules is trained with everything recorded that is recorded by default, and with everything that
can be asked for. After steps that fill what is made once, two steps are profiled on the training's thread. A call
counts when its function lies in `probe/`; a switch is a call from one file of `probe/` into another.

    python benchmarks/call_path.py [--json] [--trace ROW]
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Final

import mindscope
import torch
from environment import machine
from mindscope import probe
from mindscope.probe.collectors.collector import COLLECTORS
from mindscope.storage import open_store
from rows import at_most
from torch import nn
from torch.nn import functional

WARM_UP_STEPS: Final = 12
PROFILED_STEPS: Final = 2

#: What "everything" is to stay within: our choice, half of what one file for each small idea had cost.
TARGETS: Final = {"files": 25, "calls": 250, "switches": 150}

ROWS: Final[Mapping[str, Mapping[str, object]]] = {
    "everything": {"every": 1},
    "everything, and all on request": {
        "every": 1,
        "statistics": ["sum", "kurtosis", "checksum", "quantiles"],
        "subjects": {
            name: {"every": 1} for name, entry in COLLECTORS.items() if entry.is_optional and name != "operator"
        },
    },
}
_FOLDER: Final = str(Path(probe.__file__).parent)


@dataclass(frozen=True, slots=True)
class CallPath:
    """What two steps ran in `probe/`, on the training's thread."""

    row: str
    files: int
    calls: int
    switches: int


class CallRecorder:
    """A profile function that keeps every call into `probe/`: the caller's file there, the file and the function."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Keep a call of a function of `probe/`; the caller is the innermost function of `probe/` around it."""
        if event != "call" or not _is_ours(frame):
            return
        caller = frame.f_back
        while caller is not None and not _is_ours(caller):
            caller = caller.f_back
        self.calls.append((_file(caller) if caller else "", _file(frame), frame.f_code.co_qualname))


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_FOLDER)


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(_FOLDER + os.sep)


def profiled_calls(config: Mapping[str, object], folder: Path) -> list[tuple[str, str, str]]:
    """Return the calls of two steps of a watched training with this configuration, its store in the folder."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(8, 16), torch.randint(0, 4, (8,))
    recorder = CallRecorder()

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    with mindscope.watch(model, optimizer, store=open_store(folder), config=config):
        for _ in range(WARM_UP_STEPS):
            step()
        sys.setprofile(recorder)  # of this thread; the writer's has a profile of its own
        try:
            for _ in range(PROFILED_STEPS):
                step()
        finally:
            sys.setprofile(None)
    return recorder.calls


def call_path(row: str, calls: Sequence[tuple[str, str, str]]) -> CallPath:
    """Count files, calls and switches; a hook that the framework calls is no switch."""
    return CallPath(
        row,
        files=len({file for _, file, _ in calls}),
        calls=len(calls),
        switches=sum(caller not in ("", file) for caller, file, _ in calls),
    )


def document(paths: Sequence[CallPath]) -> dict[str, object]:
    """Return the figures as a document of the benchmarks' page; only what is recorded by default has targets."""
    results = [
        at_most(TARGETS[metric] if number == 0 else None, path.row, metric, getattr(path, metric), "in two steps")
        for number, path in enumerate(paths)
        for metric in TARGETS
    ]
    versions = {"python": platform.python_version(), "torch": version("torch")}
    return {"benchmark": "call path", "machine": machine(), "versions": versions, "results": results}


def main() -> None:
    """Measure both rows, and print a table, or JSON, or the calls of one row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="change nothing: the benchmark takes seconds")
    parser.add_argument("--trace", choices=ROWS, help="print every call of this row, in order")
    options = parser.parse_args()
    found = []
    for row, config in ROWS.items():
        with tempfile.TemporaryDirectory() as folder:
            calls = profiled_calls(config, Path(folder))
        if options.trace == row:
            for caller, file, name in calls:
                print(f"{caller or 'a hook':40} {file:40} {name}")
        found.append(call_path(row, calls))
    if options.json:
        json.dump(document(found), sys.stdout, indent=1)
        print()
    elif options.trace is None:
        for path in found:
            print(f"{path.row:32} {path.files:3} files  {path.calls:4} calls  {path.switches:4} switches")


if __name__ == "__main__":
    main()
