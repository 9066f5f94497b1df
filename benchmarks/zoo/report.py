"""The zoo's document: shares with intervals and targets, costs, and every miss and false alarm by name."""

import platform
from collections.abc import Sequence
from typing import Any

import torch
from mindscope.insight.rules import RULES

from ..environment import machine
from ..rows import row_of
from .case import Case
from .peers import PeerRuns, joined
from .record import accusations, still_accused
from .rows import Row, share_row
from .score import (
    Judged,
    by_other_families,
    calibration_error,
    claims,
    costs,
    false_alarms,
    identical,
    is_told_of_another,
    judge_all,
    notices,
    record_of,
    share,
    words,
)
from .variants import variant_rows


def document(
    cases: Sequence[Case],
    *,
    sealed: frozenset[str],
    only_rates: bool,
    peers: PeerRuns | None = None,
    commit: str = "unknown",
    processes: int = 1,
) -> dict[str, Any]:
    """Return everything that was measured, as plain values.

    Args:
        sealed: Families of the sealed half.
        only_rates: Leave out every name of a program and everything that was said: the half is sealed.
        peers: What other tools said of the same runs.
        commit: Of the monitor.
        processes: Programs that ran side by side; with more than one, costs say nothing and are left out.
    """
    judged = judge_all(cases)
    healthy = [case for case in cases if not case.is_fault]
    rates = {
        "benchmark": f"zoo, {'sealed' if only_rates else 'work'} half, at {commit}",
        "machine": machine(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "programs": len({case.entry.name for case in cases}),
        "families": len({case.entry.family for case in cases}),
        "mutants": sum(bool(case.operator) for case in cases),
        "operators": len({case.operator for case in cases} - {""}),
        "sealed families": len({case.entry.family for case in cases} & sealed),
        "seeds": sorted({case.seed for case in cases}),
        "rules": sorted(RULES),
        "severity": accusations([case for case in cases if not case.operator]),
        "notices": {"faults": len(judged), "healthy": len(healthy), "by rule": notices(cases)},
        "claims": {"runs": len(cases), "named": record_of(claims(cases))},
        "results": [*_fault_rows(judged), *_healthy_rows(healthy, cases), *variant_rows(cases)],
        "missing": [],
    }
    if processes == 1:
        rates["results"] += _cost_rows(healthy)
    else:
        rates["missing"].append(f"costs, since {processes} programs ran side by side")
    if not judged:
        rates["missing"].append("faults, since no mutant was run that did harm")
    if peers:
        rates["results"] = joined(rates["results"], {tool: _told(found) for tool, found in peers.cases.items()})
        rates["missing"] += [{"peer": tool, "reason": reason} for tool, reason in peers.missing.items()]
    return rates if only_rates else rates | _names(judged, healthy)


def _told(cases: Sequence[Case]) -> list[Row]:
    """Return the rows that another tool can have: it does not say how sure it is, and its cost is not measured."""
    healthy = [case for case in cases if not case.is_fault]
    rows = [*_fault_rows(judge_all(cases)), *_healthy_rows(healthy, cases)]
    return [row for row in rows if row["unit"] == "%" and row["case"] != "all runs" and "left out" not in row["metric"]]


def _fault_rows(judged: Sequence[Judged]) -> list[Row]:
    silent = [one for one in judged if one.case.is_silent]
    claims = [
        ("faults", "detected", [one.is_seen for one in judged], 0.80),
        ("faults", "detected, net of the program's own alarms", [one.is_new for one in judged], 0.80),
        ("silent faults", "detected", [one.is_seen for one in silent], 0.70),
        ("silent faults", "detected, net of the program's own alarms", [one.is_new for one in silent], 0.70),
        ("faults with a word", "cause, first", [one.is_named for one in judged], 0.70),
        ("faults with a word", "cause, first three", [one.is_near for one in judged], 0.82),
        ("faults of one module", "site", [one.is_placed for one in judged], 0.75),
    ]
    return [share_row(case, metric, share(found), target) for case, metric, found, target in claims]


def _healthy_rows(healthy: Sequence[Case], cases: Sequence[Case]) -> list[Row]:
    programs = [case for case in healthy if not case.operator]
    harmless = [case for case in healthy if case.operator]
    rows = []
    for name, group in (("healthy programs", programs), ("mutants that do no harm", harmless)):
        warned = share([bool(case.watched.alarms) for case in group])
        accused = share([any(alarm.severity == "error" for alarm in case.watched.alarms) for case in group])
        rows.append(share_row(name, "with a warning", warned, 0.04, at_most=True))
        rows.append(share_row(name, "with an error", accused, 0.005, at_most=True))
    other = share([is_told_of_another(case) for case in harmless])
    name = "mutants that do no harm"
    rows.append(share_row(name, "with a warning of something else than what was planted", other, 0.04, at_most=True))
    elsewhere = share(still_accused(programs))
    rows.append(share_row("healthy programs", "with a warning, family left out", elsewhere, 0.04, at_most=True))
    same = share(identical(cases))
    rows.append(share_row("all runs", "same result with and without", same, 1.0))
    return rows + _confidence_rows(cases)


def _confidence_rows(cases: Sequence[Case]) -> list[Row]:
    """Return how far the stated confidence is from the truth: as it was printed, and by the other families alone."""
    made = claims(cases)
    if not made:
        return []
    printed, elsewhere = calibration_error(made), calibration_error(by_other_families(made))
    name = "expected calibration error"
    return [
        row_of("root causes", f"{name}, as printed", printed, "", 0.08, printed <= 0.08),
        row_of("root causes", f"{name}, family left out", elsewhere, "", 0.08, elsewhere <= 0.08),
    ]


def _cost_rows(healthy: Sequence[Case]) -> list[Row]:
    found = costs([case for case in healthy if not case.operator])
    return [row_of("healthy programs", name, value, unit, None, None) for (name, unit), value in found.items()]


def _names(judged: Sequence[Judged], healthy: Sequence[Case]) -> dict[str, Any]:
    missed = [one.case for one in judged if not one.is_new]
    misnamed = [one.case for one in judged if one.is_new and one.is_named is False]
    accused = [case for case in healthy if case.watched.alarms]
    return {
        "missed": _by_name(missed),
        "misnamed": _by_name(misnamed),
        "false alarms": false_alarms(healthy),
        "changed by the monitor": sorted({case.name for case in healthy if identical([case]) == [False]}),
        "reports": [_said("missed", case) for case in missed]
        + [_said("misnamed", case) for case in misnamed]
        + [_said("accused", case) for case in accused],
    }


def _by_name(cases: Sequence[Case]) -> dict[str, list[str]]:
    """Return the causes that were named instead, by the name of the case."""
    return {case.name: [root.cause for root in case.watched.roots[:3]] or [case.watched.verdict] for case in cases}


def _said(title: str, case: Case) -> Row:
    return {
        "title": title,
        "case": case.name,
        "seed": case.seed,
        "truth": case.cause or (case.operator if case.is_fault else "healthy"),
        "change": case.line,
        "harm": case.harm.reason if case.harm else "",
        "verdict": case.watched.verdict,
        "said": words(case.watched.roots or case.watched.alarms),
    }


def lines(written: dict[str, Any]) -> list[str]:
    """Return the document for a terminal."""
    head = "{programs} programs of {families} families ({sealed families} sealed), {mutants} mutants by {operators}"
    found = [f"{head.format(**written)} operators"]
    for row in written["results"]:
        value = "      -" if row["value"] is None else f"{row['value']:7.2f}"
        counts = f"{row['hits']} of {row['of']}" if "of" in row else ""
        target = "" if row["target"] is None else f"target {row['target']:g}"
        found.append(f"{row['case']:26s} {row['metric']:44s} {value} {row['unit']:3s} {counts:12s} {target}".rstrip())
    for rule, programs in written.get("false alarms", {}).items():
        found.append(f"false alarm: {rule} in {len(programs)} runs: {', '.join(sorted(set(programs)))}")
    for report in written.get("reports", ()):
        found.append("{title}: {case} seed {seed}, truth {truth}, {verdict}; {change}".format(**report))
        found += [f"    {said}" for said in report["said"]]
    return found
