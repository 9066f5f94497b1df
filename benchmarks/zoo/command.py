"""The zoo: how good the diagnosis is on trainings of others, with `mindscope run` and not a line changed."""

import argparse
import json
import logging
import sys
from importlib.metadata import version

from ..environment import commit
from .case import Further, all_cases, plan_mutants
from .entries import ENTRIES, WORKED_ON, Entry
from .interpreters import cache_folder
from .peers import peer_runs
from .report import document, lines
from .split import sealed_families

#: Seeds of the harm test and of the healthy runs.
SEEDS = (0, 1, 2)
MUTANTS = 250


def main() -> None:
    """Parse the arguments, run what is not known yet, judge, print."""
    options = _options()
    logging.disable(logging.WARNING)
    families = (entry.family for entry in ENTRIES.values())
    sealed = sealed_families(families, version("mindscope"), worked_on=WORKED_ON)
    entries = chosen(options.family, options.group, sealed=sealed, is_sealed=options.sealed)
    plans = plan_mutants(entries, sample=options.sample, seed=options.seed)
    seeds = tuple(options.seed + offset for offset in range(options.seeds))
    cases = all_cases(
        entries,
        plans,
        seeds,
        cache=cache_folder(),
        processes=options.processes,
        further=Further(has_reference=options.reference, has_logged=options.logged),
        has_additions=options.keep,
    )
    asked = peer_runs(cases, cache=cache_folder(), processes=options.processes) if options.peers else None
    written = document(
        cases,
        sealed=sealed,
        only_rates=options.sealed,
        peers=asked,
        commit=commit(),
        processes=options.processes,
    )
    if options.json:
        json.dump(written, sys.stdout, indent=1)
        return
    print("\n".join(lines(written)))


def chosen(
    families: list[str] | None, groups: list[str] | None, *, sealed: frozenset[str], is_sealed: bool
) -> list[Entry]:
    """Return the entries of one half that are of these families and environments; of all where none is named.

    Raises:
        ValueError: There is no such family, or it is of the other half.
    """
    known = {entry.family for entry in ENTRIES.values() if (entry.family in sealed) == is_sealed}
    unknown = [family for family in families or () if family not in known]
    if unknown:
        raise ValueError(f"no family of this half is named {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [
        entry
        for entry in ENTRIES.values()
        if entry.family in (families or known) and (entry.group in groups if groups else entry.was_run)
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python benchmarks/zoo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--family", action="append", help="only this family, may be repeated")
    parser.add_argument("--group", action="append", help="only entries of this environment, `plain` needs none")
    parser.add_argument("--sealed", action="store_true", help="the sealed half: rates only, no names")
    parser.add_argument("--peers", action="store_true", help="also ask other tools on the same runs")
    parser.add_argument("--reference", action="store_true", help="also beside the healthy run of the first seed")
    parser.add_argument("--logged", action="store_true", help="also with documented scalars and `ms.watch`")
    parser.add_argument("--seed", type=int, default=0, help="draws the mutants; the first seed of the programs")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="seeds of each program, two or more")
    parser.add_argument("--sample", type=int, default=MUTANTS, help="at most so many mutants")
    parser.add_argument("--keep", action="store_true", help="add results of mutants to the file beside the sources")
    parser.add_argument("--processes", type=int, default=1, help="programs side by side")
    return parser.parse_args()
