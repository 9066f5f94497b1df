"""Watchpoints: conditions that a person sets; the engine checks them like rules."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from ..storage import ROOT_SITE, SEVERITIES, Finding, Json, Severity, display_site, nearest
from ..storage.watch_conditions import WatchCondition, parse_condition
from .context.step_context import StepContext
from .context.subject_table import Table
from .errors import InvalidRule
from .rule import OPTIMIZER, Rule
from .running_statistics import Floats, Mask, Streaks

__all__ = ["PREFIX", "Watchpoint", "rules_with", "watchpoints_of"]


@dataclass(frozen=True, slots=True)
class Watchpoint:
    """A condition with a name.

    Args:
        name: What its findings are called; by default the condition's line.
        pauses: Whether the training waits at the end of the step that meets it.
    """

    name: str
    condition: WatchCondition
    severity: Severity = "warning"
    pauses: bool = False


def watchpoints_of(config: Mapping[str, Json]) -> tuple[Watchpoint, ...]:
    """Return the watchpoints of a run's configuration: lines, or mappings around one.

    Raises:
        InvalidName: A condition is not understood.
        InvalidRule: An entry is no watchpoint, or two have one name.
    """
    entries = config.get("watchpoints") or ()
    if not isinstance(entries, list | tuple):
        raise InvalidRule(f"watchpoints must be a list of conditions, got {type(entries).__name__}")
    found = [_watchpoint(entry) for entry in entries]
    names = [watchpoint.name for watchpoint in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRule(f"watchpoint {name!r} is there twice; give one of them another name")
    return tuple(found)


def _watchpoint(entry: Json) -> Watchpoint:
    if isinstance(entry, str):
        condition = parse_condition(entry)
        return Watchpoint(condition.text, condition)
    if not isinstance(entry, Mapping) or "when" not in entry:
        raise InvalidRule(f"a watchpoint must be a condition or a mapping with `when`, got {entry!r}")
    condition = parse_condition(str(entry["when"]))
    severity = str(entry.get("severity", "warning"))
    if severity not in SEVERITIES:
        raise InvalidRule(
            f"watchpoint {condition.text!r} has severity {severity!r}{nearest(severity, SEVERITIES)}; "
            f"severities are {', '.join(SEVERITIES)}"
        )
    return Watchpoint(str(entry.get("name") or condition.text), condition, severity, bool(entry.get("pause", False)))


#: Sites named for one watchpoint in one step; the others are counted. Our choice: a longer list helps nobody.
NAMED: Final = 8

_COMPARISONS: Final[Mapping[str, Callable[[Floats, WatchCondition], Mask]]] = {
    ">": lambda values, condition: values > condition.low,
    ">=": lambda values, condition: values >= condition.low,
    "<": lambda values, condition: values < condition.low,
    "<=": lambda values, condition: values <= condition.low,
    "==": lambda values, condition: values == condition.low,
    "!=": lambda values, condition: (values != condition.low) & ~np.isnan(values),
    "outside": lambda values, condition: (values < condition.low) | (values > condition.high),
    "inside": lambda values, condition: (values >= condition.low) & (values <= condition.high),
}
_COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    "nan": ("nans",),
    "inf": ("pos_infs", "neg_infs"),
    "non-finite": ("nans", "pos_infs", "neg_infs"),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A site at which a condition has held for the required number of steps.

    Args:
        value: The number that was compared; the count of elements where a content was looked for.
        others: Further places of the same step that are not named.
    """

    site: str
    metric: str
    value: float
    first_step: int
    others: int = 0


@dataclass(slots=True)
class _SubjectState:
    """The state of a watchpoint for one subject."""

    streaks: Streaks = field(default_factory=Streaks)
    chosen: dict[int, Mask] = field(default_factory=dict)
    before: Floats = field(default_factory=lambda: np.zeros((0, 0)))


class ConditionTracker:
    """Follows one condition through a run.

    Args:
        condition: As it was written.
    """

    def __init__(self, condition: WatchCondition) -> None:
        self._condition = condition
        self._watched: dict[str, _SubjectState] = {}
        self._scalar = _SubjectState()

    def hits(self, context: StepContext) -> tuple[Hit, ...]:
        """Return the sites where the condition has just become true; each time counts once."""
        if self._condition.subject == "scalar":
            found = [*self._scalar_hits(context)]
        else:
            subjects = [self._condition.subject] if self._condition.subject else [*context.subjects]
            found = [hit for subject in subjects for hit in self._subject_hits(context, subject)]
        if len(found) <= NAMED:
            return tuple(found)
        last = found[NAMED - 1]
        others = len(found) - NAMED
        return (*found[: NAMED - 1], Hit(last.site, last.metric, last.value, last.first_step, others))

    def _scalar_hits(self, context: StepContext) -> Iterator[Hit]:
        name = self._condition.statistic
        value = context.scalar(name)
        if value is not None:
            values = self._changed(self._scalar, np.array([[value]]))[:, 0]
            holds = _holds(values, self._condition)
            for _, since in self._new(self._scalar, holds, np.ones(1, np.bool_), context.step):
                yield Hit(ROOT_SITE, f"scalar/{name}", float(values[0]), since)

    def _subject_hits(self, context: StepContext, subject: str) -> Iterator[Hit]:
        table = context.table(subject)
        if table is None:
            return
        watched = self._watched.setdefault(subject, _SubjectState())
        holds, values, statistic = self._look(watched, table)
        metric = f"{subject}/{statistic}" if statistic else subject
        here = table.present & self._chosen(watched, table)
        for row, since in self._new(watched, holds & here, here, context.step):
            yield Hit(table.rows.sites[row], metric, float(values[row]), since)

    def _look(self, watched: _SubjectState, table: Table) -> tuple[Mask, Floats, str]:
        """Return where the condition holds, the numbers that show it, and their statistic."""
        condition = self._condition
        if condition.test in _COUNTS:
            names = [name for name in _COUNTS[condition.test] if name in table.rows.column]
            counts = np.sum([table.column(name) for name in names], axis=0) if names else np.zeros(len(table.values))
            return counts > 0, counts, names[0] if len(names) == 1 else ""
        if condition.test == "unchanged":
            before = _padded(watched.before, table.values.shape)
            same = ((table.values == before) | (np.isnan(table.values) & np.isnan(before))).all(axis=1)
            watched.before = np.where(table.present[:, None], table.values, before)
            return same, same.astype(np.float64), ""
        values = self._changed(watched, table.column(condition.statistic)[:, None], table.present)[:, 0]
        return _holds(values, condition), values, condition.statistic

    def _changed(self, watched: _SubjectState, values: Floats, present: Mask | None = None) -> Floats:
        """Return the values, or their relative change if the condition asks for it."""
        if not self._condition.is_change:
            return values
        before = _padded(watched.before, values.shape)
        watched.before = values if present is None else np.where(present[:, None], values, before)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(values - before) / np.abs(before)

    def _chosen(self, watched: _SubjectState, table: Table) -> Mask:
        """Return the rows whose site matches the glob."""
        sites = table.rows.sites
        if len(sites) not in watched.chosen:
            chosen = [fnmatchcase(display_site(site), self._condition.sites) for site in sites]
            watched.chosen = {len(sites): np.array(chosen, dtype=np.bool_)}
        return watched.chosen[len(sites)]

    def _new(self, watched: _SubjectState, holds: Mask, present: Mask, step: int) -> Iterator[tuple[int, int]]:
        """Yield the rows in which the condition has now held for the required steps, and since when."""
        lengths = watched.streaks.update(holds, present, step)
        for row in np.flatnonzero(holds & (lengths == self._condition.steps)):
            yield int(row), int(watched.streaks.since[row])


def _holds(values: Floats, condition: WatchCondition) -> Mask:
    return _COMPARISONS[condition.test](values, condition)


def _padded(before: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the values before; NaN for new rows, so that a first value is no change."""
    padded = np.full(shape, np.nan)
    if before.size:
        padded[: len(before)] = before
    return padded


#: The prefix of the names of watchpoint rules.
PREFIX = "watchpoint/"


def rules_with(rules: Mapping[str, Rule], config: Mapping[str, Json]) -> dict[str, Rule]:
    """Return the rules together with those of the configuration's watchpoints."""
    made = [_rule(watchpoint) for watchpoint in watchpoints_of(config)]
    return {**rules, **{rule.name: rule for rule in made}}


def _rule(watchpoint: Watchpoint) -> Rule:
    def check(context: StepContext, memory: ConditionTracker) -> Iterator[Finding]:
        for hit in memory.hits(context):
            yield _finding(context, watchpoint, hit)

    condition = watchpoint.condition
    need = f"scalar/{condition.statistic}" if condition.subject == "scalar" else condition.subject or "record"
    return Rule(
        name=f"{PREFIX}{watchpoint.name}",
        cause="watchpoint",
        needs=(need,),
        phase=OPTIMIZER,
        check=check,
        memory=lambda: ConditionTracker(condition),
        warm_up=1,
        essential=False,
        is_fact=True,
        is_optional=False,
        asks="",
        fires_on=(),
        silent_on=(),
        text=f"`{condition.text}`, written into the run's configuration.",
    )


def _finding(context: StepContext, watchpoint: Watchpoint, hit: Hit) -> Finding:
    evidence = {"value": hit.value, "steps": float(watchpoint.condition.steps)}
    if hit.others:
        evidence["further_sites"] = float(hit.others)
    return context.finding(
        hit.site,
        hit.metric,
        evidence,
        severity=watchpoint.severity,
        first_step=hit.first_step,
        explanation=f"the watchpoint {watchpoint.condition.text!r} is met with {hit.value:.6g}",
        advice="look at the series around this step; the condition is your own, so the finding cannot say why it is "
        "met",
    )
