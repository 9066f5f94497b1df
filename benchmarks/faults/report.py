"""The benchmark's document: rows with targets and intervals, and every case by name."""

import platform
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from ..environment import machine
from ..rows import row_of
from .outcome import Alarm, Outcome
from .score import Judged, Share, by_name, delays, judge, percentile, share, warned
from .table import HELD_OUT, Case

Document = dict[str, Any]
Row = dict[str, Any]


def document(cases: Sequence[Case], outcomes: Iterable[Outcome], seeds: Sequence[int]) -> Document:
    """Everything that was measured, as plain values."""
    found = {(outcome.case, outcome.seed): outcome for outcome in outcomes}
    judged = [
        judge(case, found[case.name, seed], found.get((case.script, seed)))
        for case in cases
        if not case.is_healthy
        for seed in seeds
    ]
    healthy = [found[case.name, seed] for case in cases if case.is_healthy for seed in seeds]
    return {
        "benchmark": "faults",
        "machine": machine(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__},
        "seeds": list(seeds),
        "held out": sorted(HELD_OUT),
        "results": [*_faulty_rows(judged), *_healthy_rows(healthy)],
        "missed": by_name(one for one in judged if not one.is_new),
        "misnamed": by_name(one for one in judged if not one.is_named),
        "misplaced": by_name(one for one in judged if one.is_placed is False),
        "false alarms": _false_alarms(healthy),
        "cases": [_case(one) for one in judged],
    }


def _faulty_rows(judged: list[Judged]) -> list[Row]:
    if not judged:
        return []
    late = delays(judged)
    silent = [one for one in judged if one.case.is_silent]
    held_out = [one for one in judged if one.case.is_held_out]
    names = {one.case.name for one in judged}
    rows = [_plain("faults", "cases", float(len(names)), "", 45.0, at_least=True)]
    rows += _detections("all faults", judged, 0.95)
    rows += _detections("silent faults", silent, 0.90)
    rows += _detections("held-out scripts", held_out, 0.95)
    rows += [
        _share("all faults", "site and rank, first cause", share(judged, lambda one: one.is_placed), 0.90),
        _share("all faults", "cause, first", share(judged, lambda one: one.is_named), 0.90),
        _share("all faults", "cause, first three", share(judged, lambda one: one.is_near), 0.97),
        _share("held-out scripts", "cause, first", share(held_out, lambda one: one.is_named), 0.90),
        _plain("all faults", "delay, median", percentile(late, 0.5), "steps", 0.0),
        _plain("all faults", "delay, 90th percentile", percentile(late, 0.9), "steps", 15.0),
        _plain("all faults", "root causes named a run", float(np.mean([one.groups for one in judged])), "", None),
        _plain("all faults", "longest run", max(one.outcome.seconds for one in judged), "s", None),
    ]
    return rows


def _detections(case: str, judged: list[Judged], target: float) -> list[Row]:
    if not judged:
        return []
    return [
        _share(case, "detection, raw", share(judged, lambda one: one.is_seen), None),
        _share(case, "detection, net of the twin's alarms", share(judged, lambda one: one.is_new), target),
    ]


def _healthy_rows(healthy: list[Outcome]) -> list[Row]:
    if not healthy:
        return []
    unseen = [outcome for outcome in healthy if outcome.seed != 0]
    rows = [
        _plain("healthy", "cases", float(len({outcome.case for outcome in healthy})), "", 15.0, at_least=True),
        _share("healthy", "runs with any warning", warned(healthy), 0.02, at_most=True),
    ]
    if unseen:
        rows.append(
            _share("healthy, seeds 1 on", "runs with any warning", warned(unseen), 0.02, at_most=True),
        )
    return rows


def _share(case: str, metric: str, found: Share, target: float | None, *, at_most: bool = False) -> Row:
    low, high = found.interval
    is_met = None if target is None else (found.value <= target if at_most else found.value >= target)
    row = row_of(case, metric, 100.0 * found.value, "%", None if target is None else 100.0 * target, is_met)
    return row | {"interval": [100.0 * low, 100.0 * high], "hits": found.hits, "of": found.of}


def _plain(case: str, metric: str, value: float, unit: str, target: float | None, *, at_least: bool = False) -> Row:
    is_met = None if target is None else (value >= target if at_least else value <= target)
    return row_of(case, metric, value, unit, target, is_met)


def _false_alarms(healthy: list[Outcome]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for outcome in healthy:
        for alarm in outcome.alarms:
            names.setdefault(outcome.case, []).append(
                f"seed {outcome.seed}: {alarm.rule} at {alarm.site or 'the run'}, step {alarm.step}"
            )
    return dict(sorted(names.items()))


def _case(one: Judged) -> dict[str, Any]:
    outcome = one.outcome
    return {
        "case": one.case.name,
        "summary": one.case.summary,
        "seed": outcome.seed,
        "true causes": list(one.case.causes),
        "true sites": list(outcome.sites),
        "true rank": outcome.rank,
        "onset": outcome.onset,
        "is_silent": one.case.is_silent,
        "is_held_out": one.case.is_held_out,
        "seen": one.is_new,
        "placed": one.is_placed,
        "named": one.is_named,
        "delay": one.delay,
        "root causes": [_root(one.case, root) for root in outcome.roots],
        "error": outcome.error,
        "seconds": outcome.seconds,
    }


def _root(case: Case, root: Alarm) -> dict[str, Any]:
    return {
        "rule": root.rule,
        "cause": root.cause,
        "site": root.site,
        "rank": root.rank,
        "step": root.step,
        "confidence": root.confidence,
        "is_right": root.cause in case.causes,
    }


def lines(written: Document) -> list[str]:
    """The document for a terminal."""
    found = []
    for row in written["results"]:
        interval = row.get("interval")
        between = f"  [{interval[0]:5.1f}, {interval[1]:5.1f}]" if interval else ""
        target = "" if row["target"] is None else f"  target {row['target']:g}"
        mark = {True: "  met", False: "  MISSED", None: ""}[row["ok"]]
        found.append(
            f"{row['case']:<20} {row['metric']:<38} {row['value']:8.1f} {row['unit']:<5}{between}{target}{mark}"
        )
    for title in ("missed", "misnamed", "misplaced", "false alarms"):
        if written[title]:
            found += ["", f"{title}:", *(f"  {name}: {what}" for name, what in written[title].items())]
    return found
