"""The benchmark of diagnosis: broken trainings and healthy ones, and what mindscope says of them."""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from .cases import chosen
from .outcome import Outcome
from .pool import outcomes_of
from .report import document, lines

SEEDS = (0, 1, 2, 3, 4)
#: Steady runs, one seed sampled.
QUICK = (1,)


def main() -> None:
    """Parse the arguments, train, judge, print."""
    options = _options()
    logging.disable(logging.WARNING)
    seeds = tuple(options.seed or (QUICK if options.quick else SEEDS))
    cases = chosen(options.cases)
    names = sorted({name for case in cases for name in (case.name, case.script)})
    jobs = [(name, seed) for seed in seeds for name in names]
    known = _read(options.into)
    found = [known[job] for job in jobs if job in known]
    for outcome in _train([job for job in jobs if job not in known], options.processes):
        found.append(outcome)
        if options.into:
            with options.into.open("a", encoding="utf-8") as file:
                file.write(outcome.to_line() + "\n")
    written = document(cases, found, seeds)
    if options.json:
        json.dump(written, sys.stdout, indent=1)
        return
    print("\n".join(lines(written)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python benchmarks/faults", description=__doc__)
    parser.add_argument("cases", nargs="*", help="parts of names of cases, or names of scripts; all by default")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="one seed instead of five")
    parser.add_argument("--seed", type=int, action="append", help="this seed, may be repeated")
    parser.add_argument("--processes", type=int, default=2, help="trainings side by side")
    parser.add_argument("--into", type=Path, help="file of outcomes, a line each; those in it are not trained again")
    return parser.parse_args()


def _read(path: Path | None) -> dict[tuple[str, int], Outcome]:
    if path is None or not path.exists():
        return {}
    outcomes = map(Outcome.from_line, path.read_text(encoding="utf-8").splitlines())
    return {(outcome.case, outcome.seed): outcome for outcome in outcomes}


def _train(jobs: list[tuple[str, int]], processes: int) -> Iterator[Outcome]:
    for count, outcome in enumerate(outcomes_of(jobs, processes=processes), 1):
        said = ", ".join(f"{root.cause} at {root.site or 'the run'}" for root in outcome.roots) or "nothing"
        run = f"{count}/{len(jobs)} {outcome.case} seed {outcome.seed}"
        print(f"{run}: {said} ({outcome.seconds:.1f} s) {outcome.error}", file=sys.stderr)
        yield outcome
