"""Runs one cell of the table in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .interleave import Ratio

_HERE = Path(__file__).resolve().parents[1]
_PATIENCE_S = 1800.0


class ToolFailed(Exception):
    """A tool that is not there, cannot be attached, or ended its process."""


@dataclass(frozen=True)
class Cell:
    """What one process found.

    Args:
        tool: Ratio of the watched copy to the two plain ones, by clock, of `CLOCKS`.
        again: Ratio of the second plain copy to the first.
        plain_s: Processor seconds of a plain step.
        steps: Steps of a round.
    """

    tool: dict[str, Ratio]
    again: dict[str, Ratio]
    plain_s: float
    steps: int


@dataclass(frozen=True)
class Effort:
    """How long is measured: seconds of a plain copy in a round, rounds, and threads of torch and BLAS."""

    seconds: float
    rounds: int
    threads: int = 1


def measure(framework: str, model: str, tool: str, row: str, effort: Effort) -> Cell:
    """The cell of this tool and row.

    Raises:
        ToolFailed: With the last line that the process has said.
    """
    numbers = (str(effort.seconds), str(effort.rounds))
    limits = {"OMP_NUM_THREADS": str(effort.threads), "OPENBLAS_NUM_THREADS": str(effort.threads)}
    done = subprocess.run(
        [sys.executable, "-m", "overhead.worker", framework, model, tool, row, *numbers],
        cwd=_HERE,
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise ToolFailed(lines[-1] if lines else f"the process ended with {done.returncode}")
    answer = json.loads(done.stdout)
    for which in ("tool", "again"):
        answer[which] = {clock: Ratio(**ratio) for clock, ratio in answer[which].items()}
    return Cell(**answer)
