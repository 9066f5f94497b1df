"""The engine that shows records to the rules: during the run, and again when a stored run is replayed.

Its findings depend on the structure and the records alone, never on time, threads or chance; so the live diagnosis and
the offline one agree bit for bit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..storage import Finding, FindingKey, Json, StepRecord, Structure
from ..storage.training_kinds import TrainingKind
from .context.broken_claims import BrokenClaims
from .context.model_index import ModelIndex
from .context.optimizer_bounds import AdamBound
from .context.record_burst import Burst
from .context.step_context import StepContext
from .context.subject_table import SubjectRows
from .finding_onset import Batches, Changes
from .learner_rules import LearnerRules, addressed
from .root_causes import appearance, is_superfluous
from .rule import NEW_STRUCTURE, Rule
from .rule_faults import RuleFaults
from .rule_scheduler import RecordKind, RuleCall, RuleScheduler
from .silent_rules import not_run, run
from .verdict import RunFacts
from .watchpoints import PREFIX, rules_with

#: The most kinds of records whose rules are cached.
_KINDS = 256


class Engine:
    """The rules and their states, for one rank of one run.

    Args:
        rules: The rules to run.
        rank: The recording process.
        config: The run's configuration; `expected_frozen`, a list of globs, is read from it.

    Attributes:
        kind: The kind of training, as far as it was recorded.
        batches: The batch that a finding began with, by the finding's key, if one matters and is known.
        changes: The change of the model's modules at or shortly before a finding, by the finding's key.
    """

    def __init__(self, rules: Mapping[str, Rule], *, rank: int = 0, config: Mapping[str, Json] | None = None) -> None:
        self._rules = dict(rules)
        self._rank = rank
        self._expected_frozen = _globs((config or {}).get("expected_frozen"))
        self._memories = {name: item.memory() if item.memory else None for name, item in rules.items()}
        self._rows: dict[str, SubjectRows] = {}
        self._model = ModelIndex(Structure())
        self._is_new = True  # the structure, which no record has come after
        self._bound = AdamBound()
        self._burst = Burst()
        self._counted: dict[str, int] = {}
        self._kinds: dict[tuple[object, ...], RecordKind] = {}
        self._faults = RuleFaults()
        self._scheduler = RuleScheduler(self._faults)
        self._findings: dict[FindingKey, Finding] = {}
        self._batches = Batches()
        self.batches: dict[FindingKey, str] = {}
        self._learners = LearnerRules(rules)
        self.kind = TrainingKind()
        self._changes = Changes()
        self._claims = BrokenClaims()
        self.changes: dict[FindingKey, str] = {}
        self.records = 0
        self._facts = RunFacts()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far, by first step and data flow; a later finding with the same key replaces the earlier."""
        found = tuple(self._findings.values())  # a copy, since the writer's thread may add to it
        return tuple(sorted(found, key=appearance))

    @property
    def structure(self) -> Structure:
        """The newest structure of the model."""
        return self._model.structure

    def learn_structure(self, structure: Structure) -> None:
        """Take the structure, or its change; histories are kept."""
        self._model = ModelIndex(structure, self._expected_frozen)
        self._is_new = True
        self._forget_kinds()

    def foresee(self, records: Sequence[StepRecord]) -> None:
        """Take the records that will be observed next, so that their statistics are computed together."""
        self._burst = Burst(records)

    def observe(self, record: StepRecord) -> tuple[Finding, ...]:
        """Return the findings of this record; a rule that raises is switched off and reported."""
        self._changes.learn(record)
        self._claims.learn(record)
        self._facts.learn(record)
        for event in record.events:
            if event.kind == "training_kind":
                self.kind = TrainingKind.of(event)
        self._learners.learn(record)
        context = StepContext(
            record=record,
            rows=self._rows,
            model=self._model,
            rank=self._rank,
            bound=self._bound,
            burst=self._burst,
            changes=self._changes,
            kind=self.kind,
            claims=self._claims,
        )
        found = self._close_skip_windows(context)
        kind = self._kind(context)
        kind.records += 1
        self.records += 1
        calls = self._scheduler.calls(kind, context)
        context.is_within_bounds = self._scheduler.is_within_bounds
        self._scheduler.index += 1
        if self._learners.names:
            calls = tuple([call for call in calls if not self._learners.takes(call[0])])
            for part, several in self._learners.calls(context, self._rules):
                found += [addressed(finding, part) for finding in self._check(part, several)]
        found += self._check(context, calls)
        self._is_new = False
        self._batches.learn(record)
        found = [self._without_a_second_name(finding) for finding in found]
        for finding in found:
            self._findings[finding.key] = finding
            if finding.key not in self.batches and (batch := self._batches.of(finding)):
                self.batches[finding.key] = batch
            if finding.key not in self.changes and (change := self._changes.of(finding)):
                self.changes[finding.key] = change
        for event in record.events:
            if event.kind == "configuration_changed" and "watchpoints" in event.data:
                self._watch(event.data)
        return tuple(found)

    def _check(self, context: StepContext, calls: Sequence[RuleCall]) -> list[Finding]:
        """Return the findings of these rules about the record, each signed by its rule."""
        found: list[Finding] = []
        for rule, check, state in calls:
            known = len(found)
            try:
                found.extend(check(context, state))
            except BaseException as error:  # noqa: BLE001 - a rule of whatever quality must never harm the run
                found[known:] = self._fault(rule, context, error)
            if len(found) > known:
                found[known:] = [rule.sign(finding) for finding in found[known:]]
        return found

    def _without_a_second_name(self, finding: Finding) -> Finding:
        """Return a finding of last resort as a notice where a fact already names what is wrong."""
        is_notice = is_superfluous(finding, self._findings.values())
        return replace(finding, severity="info") if is_notice else finding

    def _close_skip_windows(self, context: StepContext) -> list[Finding]:
        """Let the rules learn whose skip windows are over; return a finding for each rule that fails in it."""
        scheduler, found = self._scheduler, []
        is_expected = scheduler.expects(context.record)
        for name, learn in scheduler.close_windows(close_all=not is_expected):
            try:
                learn()
            except Exception as error:
                if name not in self._rules:
                    raise
                found += self._fault(self._rules[name], context, error)
        if not is_expected:
            scheduler.begin(() if self._is_new else self._burst.lookahead(context.record))
        return found

    def _kind(self, context: StepContext) -> RecordKind:
        """Return what the record carries and which rules to call; most records of a run are of one kind."""
        record = context.record
        key = (*context.subjects, None, *record.scalars, None, *[event.kind for event in record.events], self._is_new)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS:
                self._forget_kinds()
            carries = {"record", *context.subjects, *(f"scalar/{name}" for name in record.scalars)}
            carries.update(f"event/{event.kind}" for event in record.events)
            if self._model.is_known:
                carries.update(("structure", NEW_STRUCTURE) if self._is_new else ("structure",))
            called = [rule for rule in self._rules.values() if not carries.isdisjoint(rule.triggers or rule.needs)]
            calls = tuple((rule, rule.check, self._memories[rule.name]) for rule in called)
            kind = self._kinds[key] = RecordKind(frozenset(carries), calls)
        return kind

    def _forget_kinds(self) -> None:
        """Count what the kinds of records have carried so far, and drop them."""
        self._counted = self._seen()
        self._kinds.clear()
        self._scheduler.stop()

    def _seen(self) -> dict[str, int]:
        """Return how many records carried each need."""
        seen = dict(self._counted)
        for kind in list(self._kinds.values()):  # a copy, since the writer's thread may add to it
            for need in kind.carries:
                seen[need] = seen.get(need, 0) + kind.records
        return seen

    @property
    def facts(self) -> RunFacts:
        """What is known of the run beside its findings, for the verdict."""
        self._facts.seen = self._seen()
        self._facts.optimizers = len(self.structure.optimizers)
        return self._facts

    def run(self) -> tuple[str, ...]:
        """Return the rules that have seen all they need often enough, so that their silence means something."""
        return run(self._rules.values(), self._seen())

    def not_run(self) -> dict[str, str]:
        """Return why the silence of each other rule means nothing."""
        reasons = {event.site: str(event.data["error"]) for event in self._faults.events}
        return dict(sorted({**reasons, **not_run(self._rules.values(), self._seen())}.items()))

    def _watch(self, config: Mapping[str, Json]) -> None:
        """Take the watchpoints that a person set during the training; unchanged ones keep their states."""
        kept = {name: rule for name, rule in self._rules.items() if not name.startswith(PREFIX)}
        self._rules = rules_with(kept, config)
        self._forget_kinds()
        for name, rule in self._rules.items():
            if name not in self._memories:
                self._memories[name] = rule.memory() if rule.memory else None

    def _fault(self, rule: Rule, context: StepContext, error: BaseException) -> list[Finding]:
        """Switch the rule off; return a finding about it, unless another rule has failed at the same place."""
        del self._rules[rule.name]
        self._forget_kinds()
        if not self._faults.switch_off(rule.name, context.step, error):
            return []
        words = f"{type(error).__name__}: {error}"
        finding = context.finding(
            f"rule/{rule.name}",
            "",
            {"step": context.step},
            severity="warning",
            explanation=f"the rule {rule.name!r} raised {words} at step {context.step} and was switched off; "
            "the training is unharmed, and the other rules continue",
            advice="report this as a bug of mindscope with the run file; do not take this rule's silence for health",
        )
        return [replace(finding, rule="monitor-fault", cause="monitor_fault")]


def _globs(value: Json | None) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()
