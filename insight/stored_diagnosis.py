"""The diagnosis of a stored run from its stored findings, without reading its records again.

The live diagnosis stored what it found, and a command that imports a run does so, too. Pages and lists that show many
runs ask here; `diagnose` replays every record, which finds the same and takes longer.
"""

from collections.abc import Mapping
from dataclasses import replace

from ..storage import ROOT_SITE, Event, Finding, FindingKey, Run, StepRecord, Store, metric_name
from ..storage.training_kinds import kind_of_events
from .diagnosis import concluded, show_end, show_hang_at_end
from .diagnosis_report import Diagnosis
from .engine import Engine
from .finding_onset import Batches, change_at
from .rules import RULES
from .schedule_thinning import thinning_of
from .silent_rules import not_run
from .silent_rules import run as rules_run
from .verdict import most_records, stored_facts

__all__ = ["stored_diagnosis", "stored_verdict"]

#: Events of a kind that are counted; no rule needs as many.
_ENOUGH = 100
#: Rules that say what ended a run; they need nothing but the events of its end, and the memory that was held.
_OF_AN_END = ("hang", "input-mismatch", "out-of-memory", "process-killed", "program-error")
_HELD = "scalar/memory/host_bytes"


def stored_verdict(store: Store, run: Run) -> Diagnosis:
    """Return verdict, reasons, root causes and findings of a run; as dear as drawing one line.

    Muted findings are left out. What stands behind the root causes, and which rules could not run, is not filled in:
    see `stored_diagnosis`.
    """
    findings = _with_the_end(store, run, store.findings(run.id))
    return concluded(
        Diagnosis(
            run=run.id,
            verdict="undetermined",
            state=run.state,
            error=run.error,
            last_step=run.last_step,
            ranks=run.ranks,
        ),
        findings,
        {},
        store.structure(run.id, rank=run.first_rank) if len(findings) > 1 else None,
        stored_facts(store, run.id),
    )


def _with_the_end(store: Store, run: Run, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings with what ended the run, which a process that was killed could not find any more."""
    if run.state not in ("failed", "crashed"):
        return findings
    engines = [Engine({name: RULES[name] for name in _OF_AN_END}, rank=rank) for rank in run.ranks]
    for rank, engine in zip(run.ranks, engines, strict=True):
        has_held = _HELD in store.metrics(run.id, rank=rank)
        held = store.series(run.id, ROOT_SITE, _HELD, rank=rank, limit=2).values[-1:].tolist() if has_held else []
        scalars = {"memory/host_bytes": held[0]} if held else {}
        engine.observe(StepRecord(max(run.last_step, 0), run.updated_at, scalars=scalars))
        show_end(store, run, rank, engine)
    if len(run.ranks) > 1:
        show_hang_at_end(store, run, engines)
    known = {finding.key for finding in findings}
    muted = frozenset(store.muted(run.id))
    more = (finding for engine in engines for finding in engine.findings if finding.key not in known)
    return (*findings, *(finding for finding in more if (finding.rule, finding.site) not in muted))


def stored_diagnosis(store: Store, run: Run, verdict: Diagnosis | None = None) -> Diagnosis:
    """Return all that `diagnose` tells of a run, as far as it is stored; muted findings are left out.

    Args:
        verdict: What `stored_verdict` returned, where that is known already.
    """
    found = stored_verdict(store, run) if verdict is None else verdict
    seen = _seen(store, run)
    muted = {rule for rule, _ in store.muted(run.id)}
    failed = {
        finding.site.removeprefix("rule/"): f"failed: {finding.explanation}"
        for finding in found.findings
        if finding.cause == "monitor_fault" and finding.site.startswith("rule/")
    }
    reasons = {**not_run(RULES.values(), seen), **failed}
    ran = (name for name in rules_run(RULES.values(), seen) if name not in reasons and name not in muted)
    return replace(
        found,
        reasons=dict(sorted(reasons.items())),
        rules_not_run=tuple(sorted(reasons)),
        rules_run=tuple(sorted(ran)),
        batches=_batches(store, run, found.root_causes),
        changes=_changes(store, run, found.root_causes),
        thinned=thinning_of(store, run.id, run.ranks),
        kind=kind_of_events(store.events(run.id, rank=run.first_rank, kind="training_kind")),
    )


def _batches(store: Store, run: Run, findings: tuple[Finding, ...]) -> Mapping[FindingKey, str]:
    """Return the batch that each finding began with, if one matters and is known."""
    batches = {}
    for finding in findings:
        known, step = Batches(), finding.first_step
        rank = finding.rank if finding.rank in run.ranks else run.first_rank
        for record in store.replay(run.id, rank=rank, first=step, last=step):
            known.learn(record)
        if batch := known.of(finding):
            batches[finding.key] = batch
    return batches


def _changes(store: Store, run: Run, findings: tuple[Finding, ...]) -> Mapping[FindingKey, str]:
    """Return the change of the model's modules at or shortly before each finding that may depend on one."""
    events: dict[int, tuple[Event, ...]] = {}
    changes = {}
    for finding in findings:
        rank = finding.rank if finding.rank in run.ranks else run.first_rank
        if rank not in events:
            events[rank] = store.events(run.id, rank=rank, kind="modules_changed")
        if change := change_at(finding, events[rank]):
            changes[finding.key] = change
    return changes


def _seen(store: Store, run: Run) -> dict[str, int]:
    """Return how many records of the first rank carried each need of the rules, as far as the rules ask."""
    rank = run.first_rank
    scalars = {name for name in store.metrics(run.id, rank=rank) if name.startswith("scalar/")}
    subjects = {layout.subject: layout for layout in store.layouts(run.id, rank=rank)}
    seen: dict[str, int] = {}
    for need in {need for rule in RULES.values() for need in rule.needs}:
        if need.startswith("event/"):
            kind = need.partition("/")[2]
            seen[need] = len(store.events(run.id, rank=rank, kind=kind, limit=_ENOUGH))
        elif need in scalars:
            seen[need] = store.series(run.id, ROOT_SITE, need, rank=rank, limit=2).total
        elif need in subjects:
            sites, statistic = subjects[need].sites, subjects[need].statistics[0]
            metric = metric_name(need, statistic)
            seen[need] = most_records(store, run.id, metric, {sites[0], sites[-1]}, rank=rank)
    has_end = run.state == "crashed" or bool(store.events(run.id, rank=rank, kind="exception", limit=1))
    seen["record"] = max(seen.values(), default=0) or max(run.last_step + 1, int(has_end))
    if store.structure(run.id, rank=rank).modules:
        seen["structure"] = seen["record"]
    return seen
