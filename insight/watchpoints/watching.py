"""Watchpoints among the rules: the same engine asks both, inside the run and over what was stored."""

from collections.abc import Iterator, Mapping

from ...storage import Finding, Json
from ..rule import OPTIMIZER, Rule
from ..view.moment import Moment
from .holding import Hit, Holding
from .watchpoint import Watchpoint, watchpoints_of

#: What the names of their rules begin with.
PREFIX = "watchpoint/"


def rules_with(rules: Mapping[str, Rule], config: Mapping[str, Json]) -> dict[str, Rule]:
    """The rules, and those that the configuration's watchpoints make."""
    made = [_rule(one) for one in watchpoints_of(config)]
    return {**rules, **{one.name: one for one in made}}


def _rule(one: Watchpoint) -> Rule:
    def check(now: Moment, memory: Holding) -> Iterator[Finding]:
        for hit in memory.hits(now):
            yield _finding(now, one, hit)

    condition = one.condition
    need = f"scalar/{condition.statistic}" if condition.subject == "scalar" else condition.subject or "record"
    return Rule(
        name=f"{PREFIX}{one.name}",
        cause="watchpoint",
        needs=(need,),
        phase=OPTIMIZER,
        check=check,
        memory=lambda: Holding(condition),
        warm_up=1,
        essential=False,
        is_fact=True,
        is_optional=False,
        asks="",
        fires_on=(),
        silent_on=(),
        text=f"`{condition.text}`, written into the run's configuration.",
    )


def _finding(now: Moment, one: Watchpoint, hit: Hit) -> Finding:
    evidence = {"value": hit.value, "steps": float(one.condition.steps)}
    if hit.others:
        evidence["further_sites"] = float(hit.others)
    return now.finding(
        hit.site,
        hit.metric,
        evidence,
        severity=one.severity,
        first_step=hit.first_step,
        explanation=f"the watchpoint {one.condition.text!r} is met with {hit.value:.6g}",
        advice="look at the series around this step; the condition is your own, so it says that, not why",
    )
