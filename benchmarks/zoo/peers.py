"""Other tools on the zoo's runs: the same programs, the same mutants, their findings read in their favour."""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..faults.outcome import Alarm
from .case import Case
from .entries import GROUPS
from .interpreters import interpreter
from .kept import Runner
from .trial import Watched, run_command

_ROOT = Path(__file__).resolve().parents[2]
#: A tool under which a program of half a minute takes longer has said what it will say.
_LIMIT_S: Final = 300.0
#: Tools that can be attached to a loop from outside, pinned.
TOOLS: Final = {
    "torchmortem": "torchmortem==0.1.1",
    "torch-audit": "torch-audit==0.3.0",
    "traintools": "traintools==0.6.2",
    "losslint": "losslint==0.4.1",
    "neuraldbg": "neuraldbg==1.3.2",
    "trainscope": "trainscope==1.8.1",
}
#: Tools that were looked at and cannot, and why.
MISSING: Final = {
    "torchtest2": "is called with a model, one batch, its targets and the loss function, which an unchanged program "
    "does not hand out; it does not watch a training",
}


@dataclass(frozen=True, slots=True)
class PeerRuns:
    """By tool the cases, with what it said in place of our diagnosis; and why others are missing."""

    cases: dict[str, list[Case]]
    missing: dict[str, str]


def peer_runs(cases: Sequence[Case], *, cache: Path, processes: int) -> PeerRuns:
    """Run every case once more under each tool; results are kept."""
    runner, found, missing = Runner(cache), dict[str, list[Case]](), dict(MISSING)
    for tool, package in TOOLS.items():
        try:
            pythons = {group: interpreter((*GROUPS[group], package), cache) for group in _groups(cases)}
        except RuntimeError as error:
            missing[tool] = str(error)
            continue
        with ThreadPoolExecutor(processes) as pool:
            runs = [pool.submit(_case, case, tool, pythons[case.entry.group], runner) for case in cases]
            found[tool] = [run.result() for run in runs]
    return PeerRuns(found, missing)


def _groups(cases: Sequence[Case]) -> list[str]:
    return sorted({case.entry.group for case in cases})


def _case(case: Case, tool: str, python: Path, runner: Runner) -> Case:
    script = case.script or case.entry.program
    text = runner.kept(
        f"peer {tool} {_ours()}", python, script, case.seed, lambda: _run(tool, python, script, case.seed)
    )
    alarms = tuple(Alarm(**one) for one in json.loads(text))
    return replace(case, watched=Watched(case.plain, "", alarms, _first_three(alarms, case.cause)))


def _ours() -> str:
    """Return a hash of how the tools are used."""
    files = (_ROOT / "benchmarks/zoo/peer_program.py", _ROOT / "benchmarks/faults/peer_tools.py")
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _run(tool: str, python: Path, script: Path, seed: int) -> str:
    with tempfile.TemporaryDirectory(prefix="zoo-peer-") as folder:
        report = Path(folder, "report.json")
        program = [str(python), "-m", "benchmarks.zoo.peer_program", tool, str(report), str(script), str(seed)]
        path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        run_command(program, Path(folder), environment={"PYTHONPATH": path}, limit_s=_LIMIT_S)
        return report.read_text(encoding="utf-8") if report.exists() else json.dumps([])


def _first_three(alarms: Sequence[Alarm], cause: str | None) -> tuple[Alarm, ...]:
    """Return one alarm of each of the first three kinds; of several meanings the right one counts."""
    kinds: dict[str, Alarm] = {}
    for alarm in alarms:
        known = kinds.setdefault(alarm.rule, alarm)
        if cause and known.cause != cause and alarm.cause == cause:
            kinds[alarm.rule] = alarm
    return tuple(kinds.values())[:3]


def joined(rows: Sequence[dict[str, Any]], tables: dict[str, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return our rows with the values of the tools for the same case and metric beside them."""
    theirs = {(row["case"], row["metric"], tool): row["value"] for tool, table in tables.items() for row in table}
    return [
        {
            **row,
            "peers": {
                tool: theirs[row["case"], row["metric"], tool]
                for tool in tables
                if theirs.get((row["case"], row["metric"], tool)) is not None
            },
        }
        for row in rows
    ]
