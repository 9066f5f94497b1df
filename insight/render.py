"""Findings as a person or a program reads them: text for a terminal, Markdown, and the JSON document.

JSON knows no NaN and no infinity, so evidence that is not finite is written as the strings "NaN", "Infinity" and
"-Infinity", which `float()` reads back.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..storage import Finding, Json, display_site
from .account import Account

if TYPE_CHECKING:
    from .diagnosis import Diagnosis

_MEANING = {
    "healthy": "nothing is wrong as far as the recorded data shows",
    "unhealthy": "something is wrong",
    "undetermined": "too little was recorded to say",
}
_ASKS = {
    "intent": "the fact is certain, but only you know whether it is meant",
    "reference": "nothing in this run alone can tell; compare it with one that went well (mindscope compare A B)",
}
#: Characters of a run's error that are told; the rest is in the store (our choice: a few lines of a terminal).
_ERROR_LENGTH = 400


def finding_to_json(finding: Finding) -> dict[str, Json]:
    """The finding as the JSON object of `diagnose --json`."""
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
    """The document of `diagnose --json`; every value of it is plain JSON."""
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
    }


def render_text(diagnosis: "Diagnosis") -> str:
    """The diagnosis for a terminal, root causes first, without markup."""
    lines = [f"{diagnosis.run}: {diagnosis.verdict} - {_meaning(diagnosis)}"]
    if ending := _ending(diagnosis):
        lines.append(ending)
    for number, (finding, account) in enumerate(zip(diagnosis.root_causes, diagnosis.accounts(), strict=True), 1):
        lines += ["", f"{number}. {_headline(finding)}", f"   {finding.explanation}"]
        lines += [f"   what to do: {finding.advice}", f"   evidence: {_evidence(finding)}"]
        lines += [f"   {name}: {words}" for name, words in _account(account)]
    rest = _rest(diagnosis)
    if rest:
        lines += ["", "follows from it, or is good to know:" if diagnosis.root_causes else "good to know:"]
        lines += [f"   {finding.severity}: {_headline(finding)}" for finding in rest]
    if diagnosis.reasons:
        lines += ["", "rules that could not run:"]
        lines += [f"   {name}: {reason}" for name, reason in diagnosis.reasons.items()]
    return "\n".join(lines)


def render_markdown(diagnosis: "Diagnosis") -> str:
    """The diagnosis as a Markdown section, for an issue or a pull request."""
    lines = [f"## {diagnosis.run}: {diagnosis.verdict}", "", f"{_meaning(diagnosis).capitalize()}."]
    if ending := _ending(diagnosis):
        lines += ["", ending]
    for number, (finding, account) in enumerate(zip(diagnosis.root_causes, diagnosis.accounts(), strict=True), 1):
        lines += ["", f"### {number}. {_headline(finding)}", "", f"{finding.explanation}.", ""]
        lines += [f"**What to do:** {finding.advice}.", "", "| evidence | value |", "|---|---|"]
        lines += [f"| {name} | {value:.6g} |" for name, value in finding.evidence.items()]
        lines += [line for name, words in _account(account) for line in ("", f"{name.capitalize()}: {words}.")]
    lines += _markdown_list("Other findings", [f"{item.severity}: {_headline(item)}" for item in _rest(diagnosis)])
    lines += _markdown_list("Rules that could not run", [f"`{name}`: {why}" for name, why in diagnosis.reasons.items()])
    return "\n".join(lines)


def _meaning(diagnosis: "Diagnosis") -> str:
    if diagnosis.verdict == "undetermined" and diagnosis.state in ("failed", "crashed"):
        return "the run ended early, and no rule found why"
    return _MEANING[diagnosis.verdict]


def _ending(diagnosis: "Diagnosis") -> str:
    """How the run ended, in one line; nothing of one that finished."""
    where = f"at step {diagnosis.last_step}" if diagnosis.last_step >= 0 else "before its first step"
    if diagnosis.state == "finished":
        return ""
    if diagnosis.state == "running":
        return f"the run is still running, {where}"
    if diagnosis.state == "crashed":
        return f"the run crashed {where}: its process was killed or died without a last word"
    error = " ".join(diagnosis.error.split())
    if error.partition(":")[0] == "KeyboardInterrupt":
        return f"the run was interrupted {where}"
    shown = error if len(error) <= _ERROR_LENGTH else f"{error[:_ERROR_LENGTH]} ..."
    return f"the run failed {where}: {shown or 'no error was given'}"


def _markdown_list(title: str, items: Sequence[str]) -> list[str]:
    return ["", f"### {title}", "", *(f"- {item}" for item in items)] if items else []


def _rest(diagnosis: "Diagnosis") -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding not in diagnosis.root_causes]


def _headline(finding: Finding) -> str:
    where = f"at {display_site(finding.site)}"
    since = f"since step {finding.first_step}"
    seen = "" if finding.step == finding.first_step else f", seen at step {finding.step}"
    rank = f", rank {finding.rank}" if finding.rank else ""
    sure = "" if finding.confidence == 1 else f", confidence {finding.confidence:.0%}"
    return f"{finding.cause} {where} {since}{seen}{rank}{sure}"


def _evidence(finding: Finding) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in finding.evidence.items())


def _account(account: Account) -> Iterator[tuple[str, str]]:
    if account.query:
        yield "look at it", account.query
    if account.ruled_out:
        yield "ruled out", ", ".join(account.ruled_out)
    if account.not_checked:
        yield "not checked", ", ".join(account.not_checked)
    if account.also:
        yield "the same at", ", ".join(account.also)
    if account.named:
        yield "so far", f"right in {account.right} of the {account.named} runs of the benchmark in which it was named"
    if account.asks:
        yield f"needs your {account.asks}", _ASKS[account.asks]


def _account_to_json(account: Account) -> dict[str, Json]:
    return {
        "query": account.query,
        "ruled_out": list(account.ruled_out),
        "not_checked": list(account.not_checked),
        "asks": account.asks,
        "also": list(account.also),
        "named": account.named,
        "right": account.right,
    }


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
