"""The campaigns of `python benchmarks/reliability`, one after the other, and their figures in one document.

guard           every function of ours that runs inside a training raises in turn: the training must not change
kills           trainings are killed: at most the queue is lost, and the rest is right
store faults    stores fail for some seconds: nothing is lost
damaged files   files of runs are damaged at random: nothing may read wrong or be missing without a word
postgres        a server is killed in the middle of trainings: no runs are mixed, and what is lost is counted
fuzz            every reader gets damaged and odd inputs: it reads or refuses each, within two seconds
"""

import argparse
import json
import logging
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from ..environment import machine
from . import damaged_files, fuzzed_readers, kills, postgres_crashes, store_faults

#: Trials of the guard when it is to be quick.
_FEW: Final = 80

#: Rows of figures, and a line for each failure.
Figures = tuple[list[dict[str, Any]], list[str]]


def _guard(options: argparse.Namespace) -> Figures:
    import torch

    from .guard.campaign import guard_rows

    torch.set_num_threads(1)
    rows = guard_rows(
        seed=options.seed,
        share=options.share,
        most=_FEW if options.quick else options.most,
        folder=options.folder,
        trainings=options.training,
        report=options.report,
    )
    return list(rows), []


CAMPAIGNS: Final[dict[str, Callable[[argparse.Namespace], Figures]]] = {
    "guard": _guard,
    "kills": lambda options: kills.measure(options.quick, options.seed),
    "store faults": lambda options: store_faults.measure(options.quick, options.seed),
    "damaged files": lambda options: damaged_files.measure(options.quick, options.seed),
    "postgres": lambda options: postgres_crashes.measure(options.quick, options.seed),
    "fuzz": lambda options: fuzzed_readers.measure(options.quick, options.seed),
}


def main() -> None:
    """Run the campaigns that are asked for, and print their figures, or JSON."""
    options = _options()
    logging.disable(logging.CRITICAL if "guard" not in (options.part or CAMPAIGNS) else logging.NOTSET)
    results: list[dict[str, Any]] = []
    missed: dict[str, list[str]] = {}
    for name in options.part or CAMPAIGNS:
        rows, failures = CAMPAIGNS[name](options)
        results += rows
        if failures:
            missed[name] = failures
        for row in [] if options.json else rows:
            target = "" if row["target"] is None else f", target {row['target']:g}: {'met' if row['ok'] else 'MISSED'}"
            print(f"{row['case']}, {row['metric']}: {row['value']:g} {row['unit']}{target}", flush=True)
    if options.json:
        versions = {"python": platform.python_version(), "sqlalchemy": version("sqlalchemy")}
        head = {"benchmark": "reliability", "machine": machine(), "versions": versions, "seed": options.seed}
        json.dump({**head, "results": results, "missed": missed}, sys.stdout, indent=1)
        print()
    else:
        print("\n".join(f"{name}: {line}" for name, lines in missed.items() for line in lines))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/reliability", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="some trials of each campaign")
    parser.add_argument("--part", action="append", choices=CAMPAIGNS, help="only this campaign, may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="the same seed breaks the same things")
    guard = parser.add_argument_group("guard")
    guard.add_argument("--share", type=float, default=0.1, help="of functions that raise other errors, or later, too")
    guard.add_argument("--folder", default="", help="functions of this folder alone, as `probe/adapters`")
    guard.add_argument("--training", action="append", default=[], help="one of the trainings, as `mlp, watch`")
    guard.add_argument("--most", type=int, help="trials at most, drawn by the seed")
    guard.add_argument("--report", type=Path, help="a file for the verdicts, one a line")
    return parser.parse_args()
