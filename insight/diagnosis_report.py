"""A diagnosis as the rules leave it, and its forms: text for a terminal, Markdown for an issue, JSON for a program.

JSON knows no NaN and no infinity, so evidence that is not finite is written as the strings "NaN", "Infinity" and
"-Infinity", which `float()` reads back.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from ..storage import Finding, FindingKey, Json, RunState, display_site, state_in_words
from ..storage.plain_text import without_escapes
from ..storage.training_kinds import TrainingKind
from .account import Account, account_of
from .consequences import NON_FINITE
from .rule_confidence import record_in_words
from .schedule_thinning import ScheduleThinning
from .unknown_cause import UNKNOWN, standing_of
from .verdict import Judgement, Verdict, Words, ended_early


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong with a run, and what caused it.

    Args:
        run: Its id.
        verdict: `healthy`, `unhealthy` or `undetermined`, for programs; `healthy` stands for `no fault found`, too.
        root_causes: The findings from which the others follow, at most three, facts first.
        follows: The findings that may follow from each of them.
        findings: All of them, by first step and data flow.
        rules_not_run: Rules whose silence means nothing.
        reasons: Why, for each of those.
        rules_run: Rules that saw enough, so that their silence means something.
        state: How the run ended, or that it has not.
        error: The error of a failed run, else empty.
        last_step: The newest step, -1 before the first.
        batches: The batch that a finding began with, by the finding's key, if one matters.
        changes: The change of the model's modules at or shortly before a finding, by the finding's key.
        judgement: The reasons of the verdict, what was not checked, and the questions.
        ranks: The recording processes.
        reference: Name of the good run that it was compared with; empty for none.
        thinned: What an overhead budget left out of the run; None if it left out nothing.
        kind: The kind of training.
        is_stored: Whether a store has the run, so that its series can be read.
        damage: What of the run could not be read.
    """

    run: str
    verdict: Verdict
    root_causes: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    rules_not_run: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    rules_run: tuple[str, ...] = ()
    state: RunState = "finished"
    error: str = ""
    last_step: int = -1
    follows: tuple[tuple[Finding, ...], ...] = ()
    batches: Mapping[FindingKey, str] = field(default_factory=dict)
    ranks: tuple[int, ...] = (0,)
    reference: str = ""
    thinned: ScheduleThinning | None = None
    changes: Mapping[FindingKey, str] = field(default_factory=dict)
    kind: TrainingKind = field(default_factory=TrainingKind)
    judgement: Judgement = field(default_factory=Judgement)
    is_stored: bool = True
    damage: tuple[str, ...] = ()

    @property
    def verdict_words(self) -> Words:
        """The verdict for people: `healthy`, `no fault found`, `unhealthy` or `undetermined`."""
        judged = self.judgement
        return judged.words if judged.verdict == self.verdict else self.verdict

    @property
    def questions(self) -> tuple[Finding, ...]:
        """The findings that only the person's intent can settle; they never make a run unhealthy."""
        return self.judgement.questions

    def accounts(self) -> tuple[Account, ...]:
        """Return what stands behind each root cause, in their order."""
        follows = dict(zip((root.key for root in self.root_causes), self.follows, strict=False))
        return tuple(
            account_of(
                root,
                self.run,
                last_step=self.last_step,
                findings=self.findings,
                rules_run=self.rules_run,
                follows=follows.get(root.key, ()),
                batch=self.batches.get(root.key, ""),
                change=self.changes.get(root.key, ""),
                is_stored=self.is_stored,
            )
            for root in self.root_causes
        )

    def to_json(self) -> dict[str, Json]:
        """Return the document of `diagnose --json`: plain JSON; evidence that is not finite is a string."""
        return render_json(self)

    def to_text(self) -> str:
        """Return the diagnosis for a terminal, root causes first, without markup."""
        return render_text(self)

    def to_markdown(self) -> str:
        """Return the diagnosis as a Markdown section."""
        return render_markdown(self)


_MEANING = {
    "healthy": "nothing is wrong as far as the recorded data shows",
    "no fault found": "no rule found anything wrong, which is not to say that all is well",
    "unhealthy": "something is wrong",
    "undetermined": "too little was recorded to say",
}
_NEEDS = {
    "intent": ("needs your intent", "the fact is certain, but only you know whether it is meant"),
    "reference": (
        "needs a reference",
        "this run alone cannot tell; compare it with one that went well (mindscope diagnose RUN --reference GOOD)",
    ),
}
#: Characters of a run's error that are shown; the rest is in the store (our choice: a few lines of a terminal).
_ERROR_LENGTH = 400
#: Names in a list; the document holds all of them (our choice: one line of a terminal).
_NAMED = 6
#: Names in the evidence that are limits of a rule, and no data.
_LIMITS = frozenset({"limit", "largest_gain", "smallest_gain", "lowest_usual", "bound"})
#: Causes that say what was measured, and no more.
_MEASURED = frozenset({"straggler"})
#: Whole numbers below this are counts and written in full.
_COUNT = 1e7


def render_text(diagnosis: Diagnosis) -> str:
    """Return the diagnosis for a terminal, root causes first, without markup."""
    lines = [f"{diagnosis.run}: {diagnosis.verdict_words} - {_meaning(diagnosis)}"]
    lines += beside(diagnosis)
    for number, (finding, account) in enumerate(zip(diagnosis.root_causes, diagnosis.accounts(), strict=True), 1):
        lines += ["", f"{number}. {_headline(finding, diagnosis)}", f"   {finding.explanation}"]
        lines += [f"   what to do: {finding.advice}", f"   evidence: {_evidence(finding)}"]
        lines += [f"   {name}: {words}" for name, words in account_lines(account, finding, diagnosis)]
    for title, words in sections(diagnosis):
        lines += ["", f"{title}:", *(f"   {word}" for word in words)]
    return "\n".join(lines)


def render_markdown(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as a Markdown section."""
    lines = [f"## {diagnosis.run}: {diagnosis.verdict_words}", "", f"{_meaning(diagnosis).capitalize()}."]
    for line in beside(diagnosis):
        lines += ["", line]
    for number, (finding, account) in enumerate(zip(diagnosis.root_causes, diagnosis.accounts(), strict=True), 1):
        lines += ["", f"### {number}. {_headline(finding, diagnosis)}", "", f"{finding.explanation}.", ""]
        lines += [f"**What to do:** {finding.advice}.", "", "| evidence | value |", "|---|---|"]
        lines += [f"| {name} | {_number(value)} |" for name, value in finding.evidence.items()]
        behind = account_lines(account, finding, diagnosis)
        lines += [line for name, words in behind for line in ("", f"{name.capitalize()}: {words}.")]
    for title, items in sections(diagnosis):
        lines += ["", f"### {title.capitalize()}", "", *(f"- {item}" for item in items)]
    return "\n".join(lines)


def _meaning(diagnosis: Diagnosis) -> str:
    if diagnosis.damage and diagnosis.verdict != "unhealthy":
        return "a part of the run is damaged; the rest shows nothing wrong"
    if diagnosis.verdict == "undetermined" and diagnosis.state in ("failed", "crashed"):
        return ended_early(diagnosis.findings)
    return _MEANING[diagnosis.verdict_words]


def beside(diagnosis: Diagnosis) -> list[str]:
    """Return what is damaged, how the run ended, its kind, and what a budget left out, as far as there is any of it."""
    thinned = "" if diagnosis.thinned is None else f"schedule: {diagnosis.thinned.to_text()}"
    kind = f"kind: {diagnosis.kind.to_text()}" if diagnosis.kind.label else ""
    damage = [f"DAMAGED: {words}" for words in diagnosis.damage[:_NAMED]]
    return [*damage, *(line for line in (_ending(diagnosis), kind, thinned) if line)]


def _ending(diagnosis: Diagnosis) -> str:
    """Return how the run ended, in one line; empty for a run that finished."""
    where = f"at step {diagnosis.last_step}" if diagnosis.last_step >= 0 else "before its first step"
    if diagnosis.state == "finished":
        return ""
    if diagnosis.state == "running":
        return f"the run is still running, {where}"
    if diagnosis.state == "crashed" and diagnosis.error:
        return f"the run crashed {where}: its process was ended by {diagnosis.error}"
    if diagnosis.state == "crashed":
        return f"the run crashed {where}: its process was killed, or died without reporting an error"
    error = " ".join(without_escapes(diagnosis.error).split())
    ended = state_in_words(diagnosis.state, error)
    if ended == "interrupted":
        return f"the run was interrupted {where}"
    if ended == "stopped":
        return f"the run was stopped {where}: {error.partition(': ')[2]}"
    shown = error if len(error) <= _ERROR_LENGTH else f"{error[:_ERROR_LENGTH]} ..."
    return f"the run failed {where}: {shown or 'no error was given'}"


def _headline(finding: Finding, diagnosis: Diagnosis) -> str:
    rank = f" of rank {finding.rank}" if len(diagnosis.ranks) > 1 or finding.rank else ""
    seen = "" if finding.step == finding.first_step else f", seen at step {finding.step}"
    return f"{finding.cause} at {display_site(finding.site)}{rank} since step {finding.first_step}{seen}"


def _evidence(finding: Finding) -> str:
    """Return every number with its name; leave out NaN (unknown) unless NaN is what was found."""
    is_found = finding.cause in NON_FINITE
    known = {name: value for name, value in finding.evidence.items() if is_found or not math.isnan(value)}
    words = {name: f"{name.replace('_', ' ')} {_number(value)}" for name, value in known.items()}
    limits = ", ".join(text for name, text in words.items() if name in _LIMITS)
    measured = ", ".join(text for name, text in words.items() if name not in _LIMITS)
    return f"{measured}; limits of the rule: {limits}" if limits else measured


def _number(value: float) -> str:
    is_count = math.isfinite(value) and value == int(value) and abs(value) < _COUNT
    return f"{value:.0f}" if is_count else f"{value:.4g}"


def account_lines(account: Account, finding: Finding, diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield titles and words of what stands behind a root cause: what followed, how sure it is, where to look."""
    beside = (
        ("the same at", _some(account.also)),
        ("the same on ranks", _some(map(str, account.ranks))),
        ("the batch", account.batch),
        ("modules changed", account.change),
        *_beside(finding, account),
    )
    yield from ((name, words) for name, words in beside if words)
    yield "how sure", _certainty(account, finding)
    if account.asks == "reference" and diagnosis.reference:
        yield "compared with", f"the good run {diagnosis.reference!r}"
    elif account.asks:
        yield _NEEDS[account.asks]
    if finding.cause == UNKNOWN:
        yield from _standing(finding, diagnosis)
    elif account.ruled_out:
        yield "no sign of", _some(account.ruled_out)
    if account.not_checked and finding.cause != UNKNOWN:
        yield "not checked", _some(account.not_checked)
    if account.query:
        yield "look at it", account.query


def _standing(finding: Finding, diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    return standing_of(
        finding,
        diagnosis.run if diagnosis.is_stored else "RUN",
        findings=diagnosis.findings,
        rules_run=diagnosis.rules_run,
        not_run=diagnosis.reasons,
        has_reference=bool(diagnosis.reference),
    )


def _certainty(account: Account, finding: Finding) -> str:
    if account.asks == "reference":
        return "a suspicion, which the shape of the curves alone gives"
    sure = "a fact, measured in this run" if finding.confidence == 1 else f"{finding.confidence:.0%}"
    if finding.cause in _MEASURED:  # the times are facts; that they are much is a threshold
        sure = "the times were measured in this run"
    return f"{sure}{record_in_words(finding.rule, account.right, account.named)}"


def sections(diagnosis: Diagnosis) -> Iterator[tuple[str, list[str]]]:
    """Yield what stands behind the verdict, the questions, the findings that are not folded under a root cause, by
    severity, and the rules that could not run."""
    judgement = diagnosis.judgement
    if judgement.verdict != "unhealthy" and judgement.reasons:
        yield "why", list(judgement.reasons)
    if judgement.not_checked:
        yield "not checked", list(judgement.not_checked)
        if judgement.next_command:
            yield "to check more", [judgement.next_command]
    if diagnosis.questions:
        yield (
            "questions, which only you can answer",
            [words for _, words in _grouped(diagnosis.questions, explained=True)],
        )
    groups = (diagnosis.root_causes, *diagnosis.follows, diagnosis.questions)
    shown = {finding.key for group in groups for finding in group}
    rest = [finding for finding in diagnosis.findings if finding.key not in shown]
    matters = [finding for finding in rest if finding.severity != "info"]
    notices = [finding for finding in rest if finding.severity == "info"]
    if matters:
        yield "also found", [f"{severity}: {words}" for severity, words in _grouped(matters, explained=True)]
    for finding in notices:
        if finding.cause == UNKNOWN:
            lines = [("what is known", finding.explanation), ("what to do", finding.advice)]
            yield (
                _headline(finding, diagnosis),
                [f"{name}: {words}" for name, words in (*lines, *_standing(finding, diagnosis))],
            )
    notices = [finding for finding in notices if finding.cause != UNKNOWN]
    if notices:
        yield "good to know", [words for _, words in _grouped(notices)]
    if diagnosis.reasons:
        yield "rules that could not run", _unable(diagnosis.reasons)


def _beside(finding: Finding, account: Account) -> Iterator[tuple[str, str]]:
    """Yield what is folded under a root cause: what began before it, which cannot follow from it, and what followed."""
    if finding.cause == UNKNOWN:
        return
    later = [other for other in account.follows if other.first_step >= finding.first_step]
    earlier = [other for other in account.follows if other.first_step < finding.first_step]
    yield "what came before", "; ".join(words for _, words in _grouped(earlier))
    yield "what followed", "; ".join(words for _, words in _grouped(later))


def _grouped(findings: Iterable[Finding], *, explained: bool = False) -> Iterator[tuple[str, str]]:
    """Yield severity and a phrase per rule: where and when it fired first, how often, and why if that is asked for."""
    by_rule = sorted(findings, key=lambda finding: (finding.severity, finding.rule))
    groups = [list(group) for _, group in groupby(by_rule, key=lambda finding: (finding.severity, finding.rule))]
    for group in sorted(groups, key=lambda group: min(finding.first_step for finding in group)):
        first = min(group, key=lambda finding: finding.first_step)
        is_one_site = len({finding.site for finding in group}) == 1
        times = f" {len(group)} times" if is_one_site and len(group) > 1 else ""
        more = "" if is_one_site else f" and at {len(group) - 1} more"
        words = f"{first.cause}{times} at {display_site(first.site)}{more} since step {first.first_step}"
        yield first.severity, f"{words}: {first.explanation}" if explained else words


def _unable(reasons: Mapping[str, str]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def _some(names: Iterable[str]) -> str:
    every = list(names)
    rest = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + rest


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
        "evidence": {name: _json_number(value) for name, value in finding.evidence.items()},
        "explanation": finding.explanation,
        "advice": finding.advice,
        "confidence": _json_number(finding.confidence),
    }


def render_json(diagnosis: Diagnosis) -> dict[str, Json]:
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
        "kind": diagnosis.kind.to_data() if diagnosis.kind.label else None,
        "thinned": _thinning_to_json(diagnosis.thinned),
        "verdict_words": diagnosis.verdict_words,
        "reasons": list(diagnosis.judgement.reasons),
        "not_checked": list(diagnosis.judgement.not_checked),
        "next_command": diagnosis.judgement.next_command,
        "questions": [finding_to_json(finding) for finding in diagnosis.questions],
        **({"damage": list(diagnosis.damage)} if diagnosis.damage else {}),
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
        "share": _json_number(thinning.share),
        "budget": _json_number(thinning.budget),
        "subjects": list(thinning.subjects),
        "rank": thinning.rank,
        "decisions": [
            {"step": decision.step, "factor": decision.factor, "share": _json_number(decision.share)}
            for decision in thinning.decisions
        ],
        "joined": dict(thinning.joined),
    }


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
