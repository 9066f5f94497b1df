"""Other tools on the same runs: what they see of faults that PyTorch trains in one process, and of healthy runs.

    python benchmarks/faults/peers.py [--json] [--seed N] [--into FILE] [--ours FILE] [CASE ...]

Needs the tools in the interpreter that runs it. Each is used as its own manual says, with its defaults, at every step.
A tool's word for what it found is translated in its favour: every cause that the word can mean counts. A run that a
tool makes longer than the limit is ended and counts as one in which it found nothing.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.faults.cases import Case, chosen  # noqa: E402
from benchmarks.faults.outcome import Outcome  # noqa: E402
from benchmarks.faults.peer_report import Found, document  # noqa: E402
from benchmarks.faults.peer_run import outcome_of  # noqa: E402
from benchmarks.faults.peer_tools import PEERS  # noqa: E402
from benchmarks.faults.table import SCRIPTS  # noqa: E402

#: Seconds after which a run under a tool is ended; twenty times what the longest takes alone (our choice).
_LIMIT_S = 60.0


def main() -> None:
    """Train every case once for each tool, judge, print."""
    options = _options()
    logging.disable(logging.WARNING)
    cases = [case for case in chosen(options.cases) if _is_fair(case)]
    seeds = tuple(options.seed or (1,))
    tools = [name for name in PEERS if _version(name)]
    names = sorted({name for case in cases for name in (case.name, case.script)})
    jobs = [(tool, name, seed) for seed in seeds for tool in tools for name in names]
    found = _read(options.into)
    for tool, outcome in _train([job for job in jobs if job not in found], options.processes, options.limit_s):
        found[tool, outcome.case, outcome.seed] = outcome
        if options.into:
            with options.into.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"peer": tool, "outcome": outcome.to_line()}) + "\n")
    versions = {name: _version(name) for name in tools}
    written = document(cases, seeds, found, _ours(options.ours), versions, limit_s=options.limit_s)
    if options.json:
        json.dump(written, sys.stdout, indent=1)
        return
    for row in written["results"]:
        said = ", ".join(f"{name} {value:.1f}" for name, value in row["peers"].items())
        print(f"{row['metric']:<36} mindscope {row['value']:6.1f}; {said} {row['unit']}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--seed", type=int, action="append", help="this seed, may be repeated; 1 by default")
    parser.add_argument("--processes", type=int, default=2, help="trainings side by side")
    parser.add_argument("--limit-s", type=float, default=_LIMIT_S, help="seconds after which a run is ended")
    parser.add_argument("--into", type=Path, help="file of outcomes, a line each; those in it are not trained again")
    parser.add_argument("--ours", type=Path, action="append", help="outcomes of `benchmarks/faults --into`")
    return parser.parse_args()


def _is_fair(case: Case) -> bool:
    """Whether a tool for PyTorch in one process can see it at all."""
    return SCRIPTS[case.script].framework == "torch" and SCRIPTS[case.script].world == 1


def _version(name: str) -> str:
    """Empty where the tool is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read(path: Path | None) -> Found:
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    read = [(row["peer"], Outcome.from_line(row["outcome"])) for row in rows]
    return {(peer, outcome.case, outcome.seed): outcome for peer, outcome in read}


def _ours(paths: Sequence[Path] | None) -> dict[tuple[str, int], Outcome]:
    lines = [line for path in paths or () for line in path.read_text(encoding="utf-8").splitlines()]
    return {(outcome.case, outcome.seed): outcome for outcome in map(Outcome.from_line, lines)}


def _train(jobs: Sequence[tuple[str, str, int]], processes: int, limit_s: float) -> Iterator[tuple[str, Outcome]]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ThreadPoolExecutor(processes) as pool:
        futures = {pool.submit(outcome_of, *job, limit_s=limit_s): job[0] for job in jobs}
        for count, future in enumerate(as_completed(futures), 1):
            tool, outcome = futures[future], future.result()
            rules = ", ".join(sorted({alarm.rule for alarm in outcome.alarms})) or "nothing"
            print(f"{count}/{len(jobs)} {tool} {outcome.case}: {rules} {outcome.error}", file=sys.stderr)
            yield tool, outcome


if __name__ == "__main__":
    main()
