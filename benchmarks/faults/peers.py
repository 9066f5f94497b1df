"""Other tools on the same runs: what they see of faults that PyTorch trains in one process, and of healthy runs.

    python benchmarks/faults/peers.py [--json] [--seed N] [CASE ...]

Needs the tools in the interpreter that runs it. Each is used as its own manual says, with its defaults, at every step.
A tool's word for what it found is translated in its favour: every cause that the word can mean counts.
"""

import argparse
import gc
import json
import logging
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.faults.cases import CASES, Case, chosen  # noqa: E402
from benchmarks.faults.outcome import Alarm, Outcome  # noqa: E402
from benchmarks.faults.peer_tools import PEERS, PeerWatcher  # noqa: E402
from benchmarks.faults.run import train_quietly  # noqa: E402
from benchmarks.faults.score import judge, share, warned  # noqa: E402
from benchmarks.faults.script import Script  # noqa: E402
from benchmarks.faults.table import SCRIPTS  # noqa: E402

#: Tools that were looked at and cannot be run on these scripts, and why.
_UNSUITABLE = {
    "traincheck": "rewrites the source of a whole script, traces every call of torch and infers invariants from the "
    "traces of reference runs before it can check one: it has no way to be attached to a model that trains",
}


def main() -> None:
    """Train every case once for each tool, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    cases = [case for case in chosen(options.cases) if _is_fair(case)]
    seeds = options.seed or [1]
    tools = {name: version(name) for name in PEERS if _is_installed(name)}
    missing = [{"peer": name, "reason": "not installed here"} for name in PEERS if name not in tools]
    missing += [{"peer": name, "reason": reason} for name, reason in _UNSUITABLE.items()]
    results = [row for name in tools for row in _measure(name, cases, seeds, options.processes)]
    written = {"benchmark": "faults, other tools", "versions": tools, "seeds": seeds, "results": results}
    if options.json:
        json.dump({**written, "missing": missing}, sys.stdout, indent=1)
        return
    for row in results:
        print(f"{row['peer']:<12} {row['metric']:<36} {row['value']:6.1f} %  ({row['hits']} of {row['of']})")


def _is_fair(case: Case) -> bool:
    """Whether a tool for PyTorch in one process can see it at all."""
    return SCRIPTS[case.script].framework == "torch" and SCRIPTS[case.script].world == 1


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _measure(peer: str, cases: Sequence[Case], seeds: Sequence[int], processes: int) -> list[dict[str, Any]]:
    names = sorted({name for case in cases for name in (case.name, case.script)})
    jobs = [(peer, name, seed) for name in names for seed in seeds]
    found = {(one.case, one.seed): one for one in _outcomes(jobs, processes)}
    judged = [
        judge(case, found[case.name, seed], found[case.script, seed])
        for case in cases
        if not case.is_healthy
        for seed in seeds
    ]
    silent = [one for one in judged if one.case.is_silent]
    healthy = [found[case.name, seed] for case in cases if case.is_healthy for seed in seeds]
    shares = {
        "detection, raw": share(judged, lambda one: one.is_seen),
        "detection, net of the twin's alarms": share(judged, lambda one: one.is_new),
        "silent faults, net": share(silent, lambda one: one.is_new),
        "site, first": share(judged, lambda one: one.is_placed),
        "cause, first": share(judged, lambda one: one.is_named),
        "cause, first three": share(judged, lambda one: one.is_near),
        "healthy runs with any warning": warned(healthy),
    }
    return [
        {"peer": peer, "metric": metric, "value": 100.0 * one.value, "unit": "%", "hits": one.hits, "of": one.of}
        for metric, one in shares.items()
    ]


def _outcomes(jobs: Sequence[tuple[str, str, int]], processes: int) -> Iterator[Outcome]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        for count, future in enumerate(as_completed([pool.submit(_work, *job) for job in jobs]), 1):
            outcome = future.result()
            rules = sorted({alarm.rule for alarm in outcome.alarms})
            print(
                f"{count}/{len(jobs)} {outcome.case}: {', '.join(rules) or 'nothing'} {outcome.error}", file=sys.stderr
            )
            yield outcome


def _work(peer: str, name: str, seed: int) -> Outcome:
    script, truth = CASES[name].prepare(seed)
    watchers: list[PeerWatcher] = []

    def watch(under_way: Script) -> PeerWatcher:
        watchers.append(PEERS[peer](under_way))
        return watchers[0]

    error = train_quietly(script, watch)
    gc.collect()
    alarms = watchers[0].alarms() if watchers else ()
    return Outcome(
        case=name,
        seed=seed,
        sites=truth.sites,
        rank=truth.rank,
        onset=truth.onset,
        alarms=alarms,
        roots=_first_three(alarms, CASES[name]),
        error=error,
    )


def _first_three(alarms: Sequence[Alarm], case: Case) -> tuple[Alarm, ...]:
    """One alarm of each of the first three kinds, read in the tool's favour."""
    kinds: dict[str, Alarm] = {}
    for alarm in alarms:
        known = kinds.setdefault(alarm.rule, alarm)
        if known.cause not in case.causes and alarm.cause in case.causes:
            kinds[alarm.rule] = alarm
    return tuple(kinds.values())[:3]


if __name__ == "__main__":
    main()
