"""Shows each learner of a training to the rules that read the loss, as if it were alone.

A record of several learners has the loss of each, `generator/loss`, and their sum. The sum is no loss that anything
descends, so rules that read the loss get a view of the record in which loss, rate and weights are one learner's, and
have a memory for each learner.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from ..storage import Event, Finding, StepRecord
from ..storage.records import Json
from .context.learner_view import KnownMatrices, LearnerView
from .context.step_context import StepContext
from .rule import Rule
from .rule_scheduler import RuleCall

_LOSS: Final = "scalar/loss"
_SUFFIX: Final = "/loss"


def learner_names(event: Event) -> tuple[str, ...]:
    """Return the names of a run's learners from the event that tells them; empty for any other event."""
    return tuple(_told(event))


def _told(event: Event) -> dict[str, frozenset[int]]:
    """Return the numbers of the optimizers by the learner's name."""
    found = event.data.get("learners") if event.kind == "learners" else None
    learners = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return {str(one["name"]): _numbers(one.get("optimizers")) for one in learners}


def _numbers(told: Json) -> frozenset[int]:
    return frozenset(one for one in told if isinstance(one, int)) if isinstance(told, list) else frozenset()


class LearnerRules:
    """The learners of one rank, and the states of the rules for each.

    Attributes:
        names: Of the learners, in the order of their appearance.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._reading = frozenset(rule.name for rule in rules.values() if _LOSS in (rule.triggers or rule.needs))
        self.names: tuple[str, ...] = ()
        self._optimizers: dict[str, frozenset[int]] = {}
        self._matrices: dict[str, KnownMatrices] = {}
        self._memories: dict[tuple[str, str], object] = {}

    def learn(self, record: StepRecord) -> None:
        """Take the names of the learners, where the record has them."""
        for event in record.events:
            if told := _told(event):
                self._optimizers, self.names = told, tuple(told)

    def takes(self, rule: Rule) -> bool:
        """Return whether the rule is to see the learners one by one."""
        return rule.name in self._reading

    def calls(self, context: StepContext, rules: Mapping[str, Rule]) -> Iterator[tuple[StepContext, list[RuleCall]]]:
        """Yield, for each learner that this record has a loss of, its view and the rules to call."""
        hidden = {f"{name}{_SUFFIX}" for name in self.names}
        for name in self.names:
            loss = context.record.scalars.get(f"{name}{_SUFFIX}")
            if loss is not None:
                known = self._matrices.setdefault(name, KnownMatrices())
                part = LearnerView(context, name, loss, hidden=hidden, optimizers=self._optimizers[name], known=known)
                yield part, [self._call(rules[key], name) for key in rules if key in self._reading]

    def _call(self, rule: Rule, learner: str) -> RuleCall:
        key = rule.name, learner
        if key not in self._memories:
            self._memories[key] = rule.memory() if rule.memory else None
        return rule, rule.check, self._memories[key]


def addressed(finding: Finding, context: StepContext) -> Finding:
    """Return a finding about a learner's view with the names that the learner and its loss have in the run."""
    if finding.site:
        return finding
    name = context.learner
    metric = f"scalar/{name}{_SUFFIX}" if finding.metric == _LOSS else finding.metric
    site = name if name in context.model.modules else ""
    return replace(finding, site=site, metric=metric, explanation=f"{name}: {finding.explanation}")
