"""The diagnosis of a run that knows a good one: what both have is no fault, and what leaves its course is one."""

from dataclasses import replace

from ...storage import Finding, Run, Store, display_site
from ..diagnosis import Diagnosis, concluded, diagnose
from ..rule import OPTIMIZER
from .align import align
from .reference import WINDOW, Departure, departures

__all__ = ["RULE", "diagnose_against"]

#: What findings that come from the comparison are called.
RULE = "reference"
#: None of 26 pairs of healthy trainings left each other's course, one of each of a seed on which no limit was measured:
#: Laplace's rule of succession.
_CONFIDENCE = 27 / 28


def diagnose_against(stores: tuple[Store, Store], runs: tuple[Run, Run]) -> Diagnosis:
    """The diagnosis of the first run, made more sensitive by the second, which went well.

    What a rule finds in both is a choice, and becomes a notice. A number that leaves the good run's course is a
    finding, at the site and step where the first of them did; where something better explains it, it follows from that.
    """
    store, run = stores[0], runs[0]
    found, good = diagnose(store, run.id), diagnose(stores[1], runs[1].id)
    rank, other = min(run.ranks, default=0), min(runs[1].ranks, default=0)
    structure = store.structure(run.id, rank=rank)
    pairs = align(structure, stores[1].structure(runs[1].id, rank=other)).pairs
    shared = {(one.rule, one.site) for one in good.findings}
    findings = [
        _excused(one, runs[1].name) if (one.rule, pairs.get(one.site, one.site)) in shared else one
        for one in found.findings
    ]
    left, common = departures(stores, runs, (rank, other))
    reasons = dict(found.reasons)
    if common < WINDOW:
        reasons[RULE] = f"the good run has {common} steps in common with this one, {WINDOW} are needed"
    elif left:
        findings.append(_finding(left, runs[1].name, rank))
    whole = concluded(found, findings, reasons, structure)
    return replace(whole, reference=runs[1].name)


def _excused(finding: Finding, name: str) -> Finding:
    words = f"{finding.explanation}; the good run {name!r} has the same"
    return replace(finding, severity="info", explanation=words)


def _finding(left: tuple[Departure, ...], name: str, rank: int) -> Finding:
    first, sites = left[0], {one.site for one in left}
    what = "the loss" if first.metric == "scalar/loss" else f"{first.metric} of {display_site(first.site)}"
    others = f"; so do {len(sites) - 1} more sites within {WINDOW} steps" if len(sites) > 1 else ""
    return Finding(
        RULE,
        "unknown",
        "warning",
        first.step,
        first.first_step,
        first.site,
        first.metric,
        {
            "value": first.value,
            "value_of_the_good_run": first.expected,
            "factor": first.factor,
            "limit": first.limit,
            "sites": len(sites),
        },
        f"{what} leaves the course of the good run {name!r}: {first.value:.4g} where that had {first.expected:.4g} at "
        f"the same steps, a factor of {first.factor:.3g}; between two seeds of one training it stays below "
        f"{first.limit:g}{others}",
        "look at what is different about this run: mindscope compare tells in what data, first weights, configuration "
        "and structure the two differ; then look at this site first",
        confidence=_CONFIDENCE,
        rank=rank,
        order=(0, OPTIMIZER, first.order[0]),
    )
