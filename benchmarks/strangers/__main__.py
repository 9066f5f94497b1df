"""How good the diagnosis is on faults that others thought of: `python -m benchmarks.strangers [--json]`."""

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..environment import commit, machine
from ..faults.score import Share
from ..zoo.report import share_row
from ..zoo.score import share
from ..zoo.trial import Watched, run_watched
from .cases import StrangersCase, all_cases, switched_cases

_Run = tuple[StrangersCase, Watched]


def main() -> None:
    """Run the chosen cases under `mindscope run` and print what was said of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--case", action="append", default=[], help="only cases whose title has this part; repeatable")
    parser.add_argument("--switched", action="store_true", help="each fault behind a switch of its program, on and off")
    parser.add_argument("--processes", type=int, default=1, help="programs side by side")
    options = parser.parse_args()
    cases = switched_cases() if options.switched else all_cases()
    chosen = [case for case in cases if not options.case or any(part in case.title for part in options.case)]
    with ThreadPoolExecutor(options.processes) as pool:
        runs = list(zip(chosen, pool.map(_watched, chosen), strict=True))
    document = judged(runs)
    if options.json:
        name = "strangers behind switches" if options.switched else "strangers"
        head = {"benchmark": f"{name} at {commit()}", "machine": machine(), "versions": _versions()}
        json.dump({**head, **document}, sys.stdout, indent=1)
        return
    for row in document["results"]:
        value = "-" if row["value"] is None else f"{row['value']:.1f}"
        print(f"{row['case']:28} {row['metric']:24} {value:>8} {row['unit']}  target {row['target']:g}")
    for kind in ("missed", "misnamed", "false alarms"):
        for title, told in document[kind].items():
            print(f"{kind}: {title}: {', '.join(told)}")


def _watched(case: StrangersCase) -> Watched:
    with tempfile.TemporaryDirectory(prefix="strangers-") as folder:
        script = Path(folder, f"{case.program}.py")
        script.write_text(case.text, encoding="utf-8")
        return run_watched(Path(sys.executable), script, 0, arguments=case.arguments)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), "torch": version("torch")}


def judged(runs: Sequence[_Run]) -> dict[str, Any]:
    """Return the shares of all that was found, named and placed, and by title what was not.

    Args:
        runs: Cases, each with what was said of it.
    """
    faults = [(case, said) for case, said in runs if case.role == "fault"]
    sound = [(case, said) for case, said in runs if case.role != "fault"]
    named = [(case, said) for case, said in faults if case.cause]
    placed = [(case, said) for case, said in faults if case.site]
    silent = [(case, said) for case, said in faults if case.is_silent]
    accused = [(case, said) for case, said in sound if said.alarms]
    first, three = ([_is_named(*run, among) for run in named] for among in (1, 3))
    rows = [
        share_row("faults", "detected", share([bool(said.alarms) for _, said in faults]), 0.80),
        share_row("silent faults", "detected", share([bool(said.alarms) for _, said in silent]), 0.70),
        share_row("faults with a word", "cause, first", share(first), 0.70),
        share_row("faults with a word", "cause, first three", share(three), 0.82),
        share_row("faults of one module", "site", share([_is_placed(*run) for run in placed]), 0.75),
        share_row("healthy and odd programs", "with a warning", Share(len(accused), len(sound)), 0.04, at_most=True),
    ]
    return {
        "results": rows,
        "missed": {case.title: [case.what] for case, said in faults if not said.alarms},
        "misnamed": {
            case.title: [f"{case.cause}, and said was", *(root.cause for root in said.roots)]
            for case, said in named
            if said.alarms and not _is_named(case, said, 1)
        },
        "false alarms": {case.title: [alarm.cause for alarm in said.alarms] for case, said in accused},
    }


def _is_named(case: StrangersCase, said: Watched, among: int) -> bool:
    return case.cause in [root.cause for root in said.roots[:among]]


def _is_placed(case: StrangersCase, said: Watched) -> bool:
    """Return whether the first root cause lies at or inside of the module, or one of its parents that is named so."""
    last = (case.site or "").rpartition(".")[2]
    return bool(said.roots) and last in said.roots[0].site.split(".")


if __name__ == "__main__":
    main()
