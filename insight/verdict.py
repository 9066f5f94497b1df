"""The verdict on a run, from one place: four words, with their reasons, and what could not be checked.

The command line, JSON, the pages, notebooks and callbacks all ask `judge`. `healthy` is a claim and has reasons: the
model learned more than the best constant answer, and no check was broken. Without them it is `no fault found`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from operator import attrgetter
from typing import Final, Literal

from ..storage import ROOT_SITE, Event, Finding, RunState, StepRecord, Store
from .indicators.exchanged_answers import ExchangedAnswers
from .indicators.loss_anchor import KnownLoss
from .learner_rules import learner_names
from .loss_levels import LossLevels, stored_levels
from .rules import RULES
from .silent_rules import recorded_times

#: The three words of the field `verdict` in JSON; programs read them.
Verdict = Literal["healthy", "unhealthy", "undetermined"]
#: The four words for people.
Words = Literal["healthy", "no fault found", "unhealthy", "undetermined"]

#: Findings that say nothing of the model's health: of the monitor itself, of what a person wanted to know, and of time
#: that passes between steps, on a machine that may have other work.
BESIDE: Final = frozenset({"dataloader_bound", "monitor_fault", "watchpoint"})
#: Share of the cost of the best constant answer below which something was learned (our choice: ten times the noise of
#: a mean over the newest losses).
_LEARNED: Final = 0.9
#: Confidence of a notice below which it is a withdrawn finding, and not a question.
_ASKED: Final = 0.3
#: Records after which no rule needs more.
_ENOUGH_RECORDS: Final = max(rule.warm_up for rule in RULES.values())
#: One series of each subject that an essential rule needs, by which its records are counted.
_COUNTED: Final = {"update": "update/l2_norm", "gradient": "gradient/l2_norm"}
#: How claims about inputs end that are answers: models of language take them beside the text and return their loss.
_OWN_ANSWERS: Final = (" targets", " target", " labels", " label")
_MEMORISED: Final = (
    "whether the labels belong to their inputs: at first the model learned nothing of them, and later it may have "
    "memorised them"
)
#: Checks that read the program's text. They hold where it has nothing of their kind, so one line tells of them.
_OF_TEXT: Final = frozenset(
    {
        "values_are_read",
        "losses_fit_their_names",
        "pretrained_values_are_trained",
        "values_fit_their_names",
        "splits_are_prepared_alike",
        "what_is_known_and_what_is_asked_are_apart",
        "modules_of_a_list_differ",
        "arrays_keep_one_order",
        "arrays_are_flattened_in_one_order",
        "results_are_used",
    }
)
_READ: Final = "read: the program's text, without a finding (values never read, formulas, orders, dropped results)"
#: Checks and reasons that are listed (our choice: a terminal shows them in one screen).
_LISTED: Final = 12


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What an executable check found: an event `check`, or the newest of several of one name.

    Args:
        outcome: `held`, `broken` or `open`, if it could not be decided.
        claim: What was checked, in words.
        counterexample: What breaks it, in words; else empty.
    """

    name: str
    outcome: str
    claim: str
    counterexample: str = ""


@dataclass(slots=True)
class RunFacts:
    """What is known of a run beside its findings.

    Attributes:
        seen: Records that carried the loss, updates and gradients, as far as they were counted.
        loss: Where the loss began and where it is.
        learners: The same of each learner's own loss, where there are several.
        checks: The newest outcome of every check.
        scalars: Names that were logged.
        unseen: Networks that were trained behind the recorded model.
        run: Its name, for commands that a person may copy.
    """

    state: RunState = "running"
    last_step: int = -1
    seen: dict[str, int] = field(default_factory=dict)
    loss: LossLevels = field(default_factory=LossLevels)
    learners: dict[str, LossLevels] = field(default_factory=dict)
    known: KnownLoss = field(default_factory=KnownLoss)
    exchanged: ExchangedAnswers = field(default_factory=ExchangedAnswers)
    optimizers: int = 1
    checks: dict[str, CheckOutcome] = field(default_factory=dict)
    has_validation: bool = False
    has_reference: bool = False
    unseen: list[str] = field(default_factory=list)
    run: str = "RUN"

    def learn(self, record: StepRecord) -> None:
        """Take one record."""
        for event in record.events:
            self.learn_event(event)
        if not record.scalars:
            return
        loss = record.scalars.get("loss")
        if loss is not None:
            self.loss.learn(loss)
        for name, levels in self.learners.items():
            if (own := record.scalars.get(f"{name}/loss")) is not None:
                levels.learn(own)
        self.known.learn_entropy(record.scalars.get("target/entropy"))
        if not self.has_validation:
            self.has_validation = any(name.startswith("validation/") for name in record.scalars)

    def learn_event(self, event: Event) -> None:
        """Take one event of the run."""
        self.known.learn_event(event)
        self.exchanged.learn([event], None)
        if event.kind == "later_training":
            self.unseen.append(str(event.data.get("networks", event.site)))
        for name in learner_names(event):
            self.learners.setdefault(name, LossLevels())
        if event.kind == "check":
            data = event.data
            name = str(data.get("check", ""))
            self.checks[f"{name} {event.site}"] = CheckOutcome(
                name,
                str(data.get("outcome", "open")),
                str(data.get("claim", name)),
                _words(data.get("counterexample")),
            )


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with everything that stands behind it.

    Args:
        verdict: For programs; `no fault found` is `healthy` here.
        words: For people.
        reasons: Why, each in a few words.
        not_checked: What the run does not tell.
        next_command: The one command that would check it; empty if nothing is left.
        questions: Findings that only the person's intent can settle; they never make a run unhealthy.
    """

    verdict: Verdict = "undetermined"
    words: Words = "undetermined"
    reasons: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    next_command: str = ""
    questions: tuple[Finding, ...] = ()


def judge(findings: Iterable[Finding], facts: RunFacts) -> Judgement:
    """Return the verdict on a run with these findings."""
    found = tuple(findings)
    questions = tuple(finding for finding in found if is_question(finding))
    judged = replace(_judged(found, facts), questions=questions)
    unseen = [f"how {networks} learned, which was trained behind the recorded model" for networks in facts.unseen]
    judged = replace(judged, not_checked=tuple(dict.fromkeys((*unseen, *judged.not_checked)))[:_LISTED])
    return replace(judged, next_command=_next_command(judged, facts))


def is_question(finding: Finding) -> bool:
    """Return whether the finding asks what is meant: a notice that ends with a question mark, and is not withdrawn."""
    return finding.severity == "info" and finding.confidence > _ASKED and finding.explanation.endswith("?")


def matters(finding: Finding) -> bool:
    """Return whether the finding makes a run unhealthy."""
    return finding.severity != "info" and finding.cause not in BESIDE


def _judged(findings: tuple[Finding, ...], facts: RunFacts) -> Judgement:
    causes = tuple(dict.fromkeys(finding.cause for finding in findings if matters(finding)))
    if causes:
        return Judgement("unhealthy", "unhealthy", tuple(f"found: {cause}" for cause in causes[:_LISTED]))
    if facts.state in ("failed", "crashed"):
        return Judgement(reasons=(ended_early(findings),))
    failed = {finding.site for finding in findings if finding.cause == "monitor_fault"}
    gaps = tuple(_gaps(facts.seen, failed))
    if gaps:
        return Judgement(reasons=gaps)
    learned, held = _learned(facts), [check for check in facts.checks.values() if _is_a_reason(check)]
    run = list(dict.fromkeys(f"checked: {check.claim}" for check in held if check.name not in _OF_TEXT))
    read = [_READ] if any(check.name in _OF_TEXT for check in held) else []
    reasons = (*((learned,) if learned else ()), *run[:_LISTED], *read)
    doubts = (_MEMORISED,) if not facts.has_validation and any(map(_was_doubted, findings)) else ()
    is_whole = not facts.unseen and not any(check.outcome == "broken" for check in facts.checks.values())
    words: Words = "healthy" if learned and is_whole and not doubts else "no fault found"
    return Judgement("healthy", words, reasons, (*doubts, *_not_checked(facts, learned)))


def ended_early(findings: Iterable[Finding]) -> str:
    """Return in words why a run that ended early has no verdict: what ended its process, as far as that is known."""
    known = next((finding.explanation for finding in findings if finding.cause == "process_killed"), "")
    return f"the run ended early: {known}" if known else "the run ended early, and no rule found why"


def _was_doubted(finding: Finding) -> bool:
    """Return whether the labels looked as if they were other samples' at first: a network can memorise such labels."""
    return finding.cause == "uninformative_labels" and finding.severity == "info" and not is_question(finding)


def _is_a_reason(check: CheckOutcome) -> bool:
    """Return whether the check speaks for the training; that a model uses the answers given for its loss does not."""
    return check.outcome == "held" and not check.claim.endswith(_OWN_ANSWERS)


def _gaps(seen: Mapping[str, int], failed: Collection[str]) -> Iterator[str]:
    """Yield why silence means nothing, for every rule without which no run can be called healthy."""
    for rule in filter(attrgetter("essential"), RULES.values()):
        if f"rule/{rule.name}" in failed:
            yield f"the rule {rule.name} failed"
        for need in rule.needs:
            if seen.get(need, 0) < rule.warm_up:
                yield f"{recorded_times(need, seen.get(need, 0))}, {rule.name} needs {rule.warm_up}"


def _learned(facts: RunFacts) -> str:
    """Return in words how much better than an answer without knowledge the loss is; empty if that is not known."""
    constant = facts.known.guessing
    is_known = facts.known.is_known and facts.optimizers <= 1 and isfinite(constant)
    if is_known and facts.loss.level < _LEARNED * constant:
        return f"the loss went {facts.loss}, where the best constant answer costs {constant:.4g}"
    if facts.optimizers <= 1 and facts.exchanged.has_learned:
        look = facts.exchanged.looks[-1]
        words = (
            f"at step {look.step} the loss of a batch was {look.loss:.4g}, and {look.exchanged:.4g} with the answers"
        )
        return f"{words} exchanged among its samples: they fit their own samples better than others"
    return ""


def _not_checked(facts: RunFacts, learned: str) -> tuple[str, ...]:
    missing = []
    if not learned:
        missing.append(_against_guessing(facts))
    if not facts.has_validation:
        missing.append(
            "whether what was learned holds for other data: no validation/loss was logged; "
            'with ms.watch in the script, monitor.log({"validation/loss": ...}) would tell'
        )
    if not facts.checks:
        missing.append("what the output depends on, and what the loss reaches")
    undecided = [check for check in facts.checks.values() if check.outcome != "held"]
    missing += [f"{check.claim}{f': {check.counterexample}' * bool(check.counterexample)}" for check in undecided]
    return tuple(missing)


def _against_guessing(facts: RunFacts) -> str:
    own = [f"that of {name} went {levels}" for name, levels in facts.learners.items() if levels.newest]
    if len(own) > 1:
        return f"whether the losses ({', '.join(own[:_LISTED])}) are better than those of the best constant answers"
    level = f" (it went {facts.loss})" if facts.loss.newest else ""
    return f"whether the loss{level} is better than that of the best constant answer"


def _next_command(judged: Judgement, facts: RunFacts) -> str:
    """Return the one command that would tell more of anything that was not checked."""
    if judged.verdict == "unhealthy":
        return ""
    if judged.verdict == "undetermined" or not facts.checks:
        return "mindscope doctor SCRIPT"
    return "" if facts.has_reference else f"mindscope diagnose {facts.run} --reference GOOD_RUN"


def stored_facts(store: Store, run: str) -> RunFacts:
    """Return the facts of a stored run, of its first rank, from its series and events; as dear as drawing one line.

    Raises:
        RunNotFound: None or several runs answer to it.
    """
    described = store.find_run(run)
    run, rank = described.id, described.first_rank
    optimizers = len(store.structure(run, rank=rank).optimizers)
    facts = RunFacts(described.state, described.last_step, optimizers=optimizers, run=run)
    names = store.metrics(run, rank=rank)
    facts.has_validation = any(name.startswith("scalar/validation/") for name in names)
    for kind in ("loss_input", "accumulation", "check", "exchange", "later_training", "learners"):
        for event in store.events(run, rank=rank, kind=kind):
            facts.learn_event(event)
    facts.loss = stored_levels(store, run, "scalar/loss", rank=rank)
    learners = {name: stored_levels(store, run, f"scalar/{name}/loss", rank=rank) for name in facts.learners}
    facts.learners = learners
    for entropy in store.series(run, ROOT_SITE, "scalar/target/entropy", rank=rank).values[-1:].tolist():
        facts.known.learn_entropy(entropy)
    facts.seen = {"scalar/loss": facts.loss.count, **_records(store, run, names, rank)}
    return facts


def _records(store: Store, run: str, names: tuple[str, ...], rank: int) -> dict[str, int]:
    """Return how many records carried each subject, by the parameter that has most."""
    found = {}
    for subject, metric in _COUNTED.items():
        if metric not in names:
            continue
        sites = [item.site for item in store.structure(run, rank=rank).parameters if item.requires_grad]
        counted = dict.fromkeys((*sites[:2], *sites[-2:]))
        found[subject] = most_records(store, run, metric, counted, rank=rank)
    return found


def most_records(store: Store, run: str, metric: str, sites: Iterable[str], *, rank: int) -> int:
    """Return how many records carried the metric at the site that has most, or at one that has enough of them.

    Enough is what any rule needs, so that most runs cost one read.
    """
    most = 0
    for site in sites:
        most = max(most, store.series(run, site, metric, rank=rank, limit=2).total)
        if most >= _ENOUGH_RECORDS:
            break
    return most


def _words(value: object) -> str:
    return "" if value is None else str(value)
