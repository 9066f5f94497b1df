"""Writes findings and diagnoses as JSON documents.

JSON knows no NaN and no infinity, so evidence that is not finite is written as the strings "NaN", "Infinity" and
"-Infinity", which `float()` reads back.
"""

import math
from typing import TYPE_CHECKING

from ..storage import Finding, Json
from .account import Account
from .schedule_thinning import ScheduleThinning

if TYPE_CHECKING:
    from .diagnosis import Diagnosis


def finding_to_json(finding: Finding) -> dict[str, Json]:
    """Return the finding as the JSON object of `diagnose --json`."""
    return {
        "rule": finding.rule,
        "cause": finding.cause,
        "severity": finding.severity,
        "step": finding.step,
        "first_step": finding.first_step,
        "site": finding.site,
        "rank": finding.rank,
        "metric": finding.metric,
        "evidence": {name: _number(value) for name, value in finding.evidence.items()},
        "explanation": finding.explanation,
        "advice": finding.advice,
        "confidence": _number(finding.confidence),
    }


def render_json(diagnosis: "Diagnosis") -> dict[str, Json]:
    """Return the document of `diagnose --json`; every value is plain JSON."""
    return {
        "run": diagnosis.run,
        "verdict": diagnosis.verdict,
        "root_causes": [finding_to_json(finding) for finding in diagnosis.root_causes],
        "findings": [finding_to_json(finding) for finding in diagnosis.findings],
        "accounts": [_account_to_json(account) for account in diagnosis.accounts()],
        "rules_not_run": dict(diagnosis.reasons),
        "state": diagnosis.state,
        "error": diagnosis.error,
        "last_step": diagnosis.last_step,
        "reference": diagnosis.reference,
        "thinned": _thinning_to_json(diagnosis.thinned),
    }


def _account_to_json(account: Account) -> dict[str, Json]:
    return {
        "query": account.query,
        "ruled_out": list(account.ruled_out),
        "not_checked": list(account.not_checked),
        "asks": account.asks,
        "also": list(account.also),
        "ranks": list(account.ranks),
        "batch": account.batch,
        "change": account.change,
        "named": account.named,
        "right": account.right,
        "follows": [
            {"rule": finding.rule, "site": finding.site, "first_step": finding.first_step}
            for finding in account.follows
        ],
    }


def _thinning_to_json(thinning: ScheduleThinning | None) -> Json:
    if thinning is None:
        return None
    return {
        "since": thinning.since,
        "changed": thinning.changed,
        "factor": thinning.factor,
        "share": _number(thinning.share),
        "budget": _number(thinning.budget),
        "subjects": list(thinning.subjects),
        "rank": thinning.rank,
        "decisions": [
            {"step": decision.step, "factor": decision.factor, "share": _number(decision.share)}
            for decision in thinning.decisions
        ],
        "joined": dict(thinning.joined),
    }


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
