"""One program, run once with the monitor or without: what it cost, what came out, and what the diagnosis said."""

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import nan
from pathlib import Path
from typing import Any, Self

from mindscope.insight.rule_confidence import is_earned, is_withheld

from ..faults.outcome import Alarm
from .interpreters import our_packages

_RESULT = re.compile(r"^result (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took and gave.

    Args:
        memory_mb: The largest resident memory.
        result: The number of its last line `result ...`, as printed; empty without one.
        exit_code: 0 if it ended well.
        error: The last line of its standard error if it did not.
    """

    cpu_s: float
    wall_s: float
    memory_mb: float
    result: str
    exit_code: int
    error: str

    @property
    def value(self) -> float:
        """The result as a number, NaN if the process failed or printed none."""
        return float(self.result) if self.result and self.exit_code == 0 else nan


@dataclass(frozen=True, slots=True)
class Watched:
    """A program that was watched, under `mindscope run` or by itself.

    Args:
        verdict: Of the diagnosis.
        alarms: Findings that are no mere notices, by step; `roots` what was named as root cause, first things first.
        withheld: Findings whose rules may only ask, since they accused healthy runs.
        notices: The other findings below a warning: questions, hints and what was withdrawn.
    """

    cost: Cost
    verdict: str
    alarms: tuple[Alarm, ...]
    roots: tuple[Alarm, ...]
    withheld: tuple[Alarm, ...] = ()
    notices: tuple[Alarm, ...] = ()

    def as_earned(self) -> Self:
        """Return it as the rules may speak now: which of them may is written from results that are kept for long."""
        every = (*self.alarms, *self.withheld)
        return replace(
            self,
            alarms=tuple(alarm for alarm in every if is_earned(alarm.rule)),
            roots=tuple(root for root in self.roots if is_earned(root.rule)),
            withheld=tuple(alarm for alarm in every if not is_earned(alarm.rule)),
        )

    def to_json(self) -> str:
        """Return it as text for a file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what such a text says."""
        values: dict[str, Any] = json.loads(text)
        names = ("alarms", "roots", "withheld", "notices")
        parts = (tuple(Alarm(**one) for one in values.get(name, ())) for name in names)
        return cls(Cost(**values["cost"]), values["verdict"], *parts)


def run_plain(python: Path, script: Path, seed: int, *, limit_s: float = 1200.0) -> Cost:
    """Run a program as its author does."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        return _run([str(python), str(script), str(seed)], Path(folder), limit_s)


def run_watched(
    python: Path,
    script: Path,
    seed: int,
    *,
    arguments: Sequence[str] = (),
    good: tuple[Path, int] | None = None,
    limit_s: float = 1200.0,
) -> Watched:
    """Run a program under `mindscope run`, not a line changed, and diagnose what was recorded.

    Args:
        arguments: What it is given behind the seed.
        good: Script and seed of a run that is good, and is given to the diagnosis as its reference.
    """
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        store = str(Path(folder, "store"))
        place = Path(folder, "place")
        place.mkdir()
        command = [str(python), "-m", "mindscope"]
        asked = ["--store", store, "this"]
        if good is not None:
            asked += ["--reference", "good"]
            _run([*command, "run", "--store", store, "--name", "good", str(good[0]), str(good[1])], place, limit_s)
        given = [str(script), str(seed), *arguments]
        cost = _run([*command, "run", "--store", store, "--name", "this", *given], place, limit_s)
        return _diagnosed(cost, python, asked, place)


def run_logged(python: Path, script: Path, seed: int, *, limit_s: float = 1200.0) -> Watched:
    """Run a program that calls `ms.watch` itself, as its author does, and diagnose the newest run of its store."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        cost = _run([str(python), str(script), str(seed)], Path(folder), limit_s)
        return _diagnosed(cost, python, ["--store", "runs", "latest"], Path(folder))


def _diagnosed(cost: Cost, python: Path, asked: Sequence[str], place: Path) -> Watched:
    command = [str(python), "-m", "mindscope", "diagnose", "--json", *asked]
    said = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, env=_environment())
    try:
        document = json.loads(said.stdout)
    except ValueError:
        return Watched(cost, "nothing recorded", (), ())
    found = [finding for finding in document["findings"] if finding["cause"] != "monitor_fault"]
    withheld = [finding for finding in found if is_withheld(finding["severity"], finding["explanation"])]
    alarms, roots = map(_claims, (found, document["root_causes"]))
    notices = [finding for finding in found if finding["severity"] == "info" and finding not in withheld]
    return Watched(cost, document["verdict"], alarms, roots, _alarms(withheld), _alarms(notices))


def _claims(findings: list[dict[str, Any]]) -> tuple[Alarm, ...]:
    return _alarms([one for one in findings if one["severity"] != "info" and one["cause"] != "monitor_fault"])


def _alarms(findings: list[dict[str, Any]]) -> tuple[Alarm, ...]:
    fields = Alarm.__dataclass_fields__
    return tuple(Alarm(**{name: value for name, value in finding.items() if name in fields}) for finding in findings)


def run_command(command: list[str], place: Path, *, environment: dict[str, str], limit_s: float = 1200.0) -> Cost:
    """Run a program in another way, with more variables."""
    return _run(command, place, limit_s, environment)


def _environment() -> dict[str, str]:
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as users have it
    return {**kept, **one, **our_packages(), "TOKENIZERS_PARALLELISM": "false", "WANDB_DISABLED": "true"}


def _run(command: list[str], place: Path, limit_s: float, more: Mapping[str, str] | None = None) -> Cost:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        environment = {**_environment(), **(more or {})}
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=place, env=environment, stdout=out, stderr=err)
        usage, code = _wait(process, began + limit_s)
        wall_s = time.monotonic() - began
        out.seek(0)
        err.seek(0)
        found = _RESULT.findall(out.read())
        lines = err.read().strip().splitlines()
    error = lines[-1] if code and lines else ""
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cost(cpu_s, wall_s, usage.ru_maxrss / 1024.0, found[-1] if found else "", code, error)


def _wait(process: subprocess.Popen[bytes], until: float) -> tuple[Any, int]:
    """Wait for a process and return what it used; end it when its time is over."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage, process.returncode
        if time.monotonic() > until:
            process.kill()
        time.sleep(0.02)
