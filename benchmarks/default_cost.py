"""What `mindscope run` costs by default: programs of the zoo, made long, without and with the monitor.

    python benchmarks/default_cost.py [--json] [--quick] [--rounds N]

Each round runs a program plainly, watched, and plainly again; the second plain run is the control. Processor time is
that of all threads and children, memory the largest resident size. `an empty script` imports torch and ends: what it
takes longer is the start. The result that a program prints must be the same to the last digit.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

from environment import machine
from rows import at_most

_PROGRAMS: Final = Path(__file__).parent / "zoo" / "programs"
#: Programs of the zoo that can be told how long to train, and what makes them last half a minute and more of one core.
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "cnn": ("--epochs", "40"),
    "curriculum": ("--steps", "6000"),
    "moe_lm": ("--steps", "1600"),
    "ppo": ("--iterations", "300"),
}
_EMPTY: Final = "an empty script"
#: Targets of the project: processor time in the median and at most, wall time, start, memory.
_CPU, _CPU_WORST, _WALL, _START_S, _MEMORY_MB = 1.08, 1.15, 1.05, 0.7, 80.0
_RESULT: Final = re.compile(r"^result (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """What one process took, and the result that it printed."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    result: str


@dataclass(frozen=True, slots=True)
class Round:
    """A program without the monitor, with it, and without it again."""

    plain: Run
    watched: Run
    control: Run

    def ratio(self, name: str) -> float:
        """Return the watched run's figure over the mean of the plain ones."""
        mean = (getattr(self.plain, name) + getattr(self.control, name)) / 2
        return float(getattr(self.watched, name) / mean)


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="programs as short as in the zoo, one round")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    rows = measure(1 if options.quick else options.rounds, is_quick=options.quick)
    if options.json:
        found = {
            "benchmark": "default_cost",
            "machine": machine(),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in ("torch", "numpy")}},
            "results": rows,
        }
        print(json.dumps(found, indent=1))
        return
    for row in rows:
        print(f"{row['case']:<18} {row['metric']:<34} {row['value']:>10} {row['unit']:<14} target {row['target']}")


def measure(rounds: int, *, is_quick: bool) -> list[dict[str, Any]]:
    """Return the rows of all programs, their medians, and the start."""
    rows, typical = [], []
    for name, longer in PROGRAMS.items():
        words = [str(_PROGRAMS / f"{name}.py"), "0", *(() if is_quick else longer)]
        found = [_round(words) for _ in range(rounds)]
        cpu, wall = (median(one.ratio(part) for one in found) for part in ("cpu_s", "wall_s"))
        typical.append((cpu, wall))
        memory = median(one.watched.memory_mb - one.plain.memory_mb for one in found)
        rows += [
            at_most(_CPU_WORST, name, "processor time", cpu, "watched/plain"),
            at_most(None, name, "wall time", wall, "watched/plain"),
            at_most(_MEMORY_MB, name, "memory", memory, "MB more"),
            at_most(None, name, "plain run", median(one.plain.cpu_s for one in found), "s of processor"),
            at_most(None, name, "A/A", median(one.control.cpu_s / one.plain.cpu_s for one in found), "plain/plain"),
            at_most(0, name, "results that differ", sum(_differs(one) for one in found), "runs"),
        ]
    cpus, walls = zip(*typical, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "empty.py")
        script.write_text("import torch\n", encoding="utf-8")
        started = [_round([str(script)]) for _ in range(max(3, rounds))]
    return [
        *rows,
        at_most(_CPU, "all programs", "processor time, median", median(cpus), "watched/plain"),
        at_most(_CPU_WORST, "all programs", "processor time, worst", max(cpus), "watched/plain"),
        at_most(_WALL, "all programs", "wall time, median", median(walls), "watched/plain"),
        at_most(_START_S, _EMPTY, "start", median(_longer(one) for one in started), "s more"),
        at_most(_MEMORY_MB, _EMPTY, "memory", median(_more_memory(one) for one in started), "MB more"),
    ]


def _longer(one: Round) -> float:
    return one.watched.wall_s - min(one.plain.wall_s, one.control.wall_s)


def _more_memory(one: Round) -> float:
    return one.watched.memory_mb - one.plain.memory_mb


def _differs(one: Round) -> bool:
    return len({run.result for run in (one.plain, one.watched, one.control)}) > 1


def _round(words: list[str]) -> Round:
    with tempfile.TemporaryDirectory() as folder:
        watched = ["-m", "mindscope", "run", "--store", os.path.join(folder, "runs"), "--", *words]
        return Round(_run(words), _run(watched), _run(words))


def _run(words: list[str]) -> Run:
    """Run Python with these words on one thread.

    Raises:
        RuntimeError: It failed; the message has the end of what it said.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start compiles all modules anew
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen([sys.executable, *words], stdout=out, stderr=subprocess.STDOUT, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read()
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with exit code {process.returncode}: {said[-400:]}")
    found = _RESULT.findall(said)
    return Run(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024.0, found[-1] if found else "")


if __name__ == "__main__":
    main()
