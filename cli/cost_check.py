"""Compares a script with and without the monitor: wall time, processor time and memory of whole processes."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from .failures import WrongUse
from .output import add_row, console, print_json, remark, table

if TYPE_CHECKING:
    from ..probe.script_world import TrainingScript

#: Ratios that are remarkable: the project's own targets for a training of half a minute and more.
_TARGETS: Final = {"wall": 1.05, "processor": 1.15}
_MEMORY_BYTES: Final = 80e6
#: Below this, the start of Python decides.
_SHORT_S: Final = 30.0
_MEGA: Final = 1e6


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took: seconds, processor seconds of all its threads and children, and most memory."""

    wall_s: float
    processor_s: float
    memory_bytes: float


def compare_cost(script: "TrainingScript", arguments: Sequence[str], *, repeats: int, as_document: bool) -> int:
    """Run the whole script in turn without and with the monitor, print the ratios and return 1 if one is remarkable.

    Raises:
        WrongUse: The script fails without the monitor.
    """
    words = [*script.words, *arguments]
    bare: list[Cost] = []
    watched: list[Cost] = []
    with tempfile.TemporaryDirectory() as folder:
        ours = ["-m", __name__.partition(".")[0], "run", "--store", os.path.join(folder, "runs"), "--"]
        for turn in range(repeats):
            remark(f"run {turn + 1} of {repeats}: without the monitor, then with it; their output is not shown")
            bare.append(_cost(words))
            watched.append(_cost([*ours, *words]))
    before, after = _typical(bare), _typical(watched)
    ratios = {"wall": after.wall_s / before.wall_s, "processor": after.processor_s / max(before.processor_s, 1e-9)}
    more = after.memory_bytes - before.memory_bytes
    if as_document:
        print_json({"script": str(script), "without": before, "with": after, **ratios, "more_memory_bytes": more})
    else:
        _print(before, after, ratios)
    return int(any(ratios[name] > limit for name, limit in _TARGETS.items()) or more > _MEMORY_BYTES)


def _cost(words: Sequence[str]) -> Cost:
    """Run Python with these words to its end; return what it took.

    Raises:
        WrongUse: It failed.
    """
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, *words], stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            last = output.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise WrongUse(f"{' '.join(words)} ended with exit code {process.returncode}: {last}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(time.perf_counter() - begun, used.ru_utime + used.ru_stime, float(used.ru_maxrss * unit))


def _typical(costs: Sequence[Cost]) -> Cost:
    return Cost(*(median(getattr(cost, name) for cost in costs) for name in Cost.__slots__))


def _print(before: Cost, after: Cost, ratios: dict[str, float]) -> None:
    listing = table("", "", "without", "with", "ratio or more", right=("without", "with", "ratio or more"))
    add_row(listing, "wall", f"{before.wall_s:.1f} s", f"{after.wall_s:.1f} s", f"{ratios['wall']:.3f}")
    times = f"{before.processor_s:.1f} s", f"{after.processor_s:.1f} s"
    add_row(listing, "processor", *times, f"{ratios['processor']:.3f}")
    sizes = f"{before.memory_bytes / _MEGA:.0f} MB", f"{after.memory_bytes / _MEGA:.0f} MB"
    add_row(listing, "memory", *sizes, f"{(after.memory_bytes - before.memory_bytes) / _MEGA:+.0f} MB")
    console().print(listing)
    if before.wall_s < _SHORT_S:
        remark(f"of a script of {before.wall_s:.0f} s the start weighs much; one of {_SHORT_S:.0f} s tells more")
    if ratios["processor"] > _TARGETS["processor"]:
        remark("to make it cheaper: a budget (budget: 3%), or fewer records (every: 10)")
