"""Hangs of trainings with several ranks: how soon each is reported, and whether the culprit is named.

Every fault of `hangs/faults.py` is injected into one rank of a small training over gloo, on 2, 4 and 8 ranks. Healthy
trainings with something slow in them must stay silent.

    python benchmarks/ranks_hangs.py --json --ranks 2,4,8
"""

import argparse
import json
import os
import sys
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from environment import machine
from hangs.campaign import DETECTED_S, NAMED_S, Outcome, cases, control, inject
from hangs.controls import CONTROLS
from hangs.overhead import measure


def main() -> int:
    options = _options()
    chosen = cases([int(size) for size in options.ranks.split(",")], options.seed)
    if options.only:
        chosen = [case for case in chosen if case[0] in options.only.split(";")]
    outcomes = [_shown(inject(*case)) for case in chosen[: options.limit or (8 if options.quick else None)]]
    controls = [] if options.only or options.hangs_only else [_control(name, quick=options.quick) for name in CONTROLS]
    overhead = None if options.quick or options.only or options.hangs_only else measure()
    document = {
        "machine": machine(),
        "seed": options.seed,
        "summary": _summary(outcomes, controls),
        "results": [outcome.row() for outcome in outcomes],
        "controls": controls,
        "overhead": overhead,
    }
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        print(json.dumps(document["summary"], indent=1))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="eight hangs and the short controls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--hangs-only", action="store_true", help="neither controls nor the overhead")
    parser.add_argument("--limit", type=int, default=0, help="at most so many hangs")
    parser.add_argument("--only", default="", help="faults, separated by semicolons")
    return parser.parse_args()


def _shown(outcome: Outcome) -> Outcome:
    times = f"{outcome.detected_s} s, {outcome.named_s} s"
    if outcome.faults:
        print(outcome.faults, file=sys.stderr)
    print(f"{outcome.size} ranks, {outcome.case} in {outcome.culprit}: {times}: {outcome.words}", file=sys.stderr)
    return outcome


def _control(name: str, *, quick: bool) -> dict[str, Any]:
    case = CONTROLS[name]
    reports, words = control(case.job, case.seconds / (4 if quick else 1))
    print(f"control {name}: {reports} reports {words}", file=sys.stderr)
    return {"case": name, "seconds": case.seconds, "reports": reports, "words": words}


def _summary(outcomes: list[Outcome], controls: list[dict[str, Any]]) -> dict[str, Any]:
    count = len(outcomes) or 1
    return {
        "hangs": len(outcomes),
        f"detected within {DETECTED_S:.0f} s": sum(outcome.is_detected for outcome in outcomes) / count,
        f"named within {NAMED_S:.0f} s": sum(outcome.is_named for outcome in outcomes) / count,
        "explained by the command afterwards": sum(outcome.is_explained_afterwards for outcome in outcomes) / count,
        "diagnosed from the store": sum(outcome.is_diagnosed_offline for outcome in outcomes) / count,
        "controls": len(controls),
        "false reports": sum(row["reports"] for row in controls),
    }


if __name__ == "__main__":
    raise SystemExit(main())
