"""Values that a series is held against: limits of findings about it, and bounds of a person's watchpoints."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from ...insight import InsightError
from ...insight.watchpoints import watchpoints_of
from ...storage import Finding, InvalidName, Run, metric_name
from ..figures import Level
from ..words import sentence


def levels_of(run: Run, site: str, metric: str, findings: Sequence[Finding]) -> tuple[Level, ...]:
    """The levels of one series, each once."""
    found = [*_of_findings(site, metric, findings), *_of_watchpoints(run, site, metric)]
    return tuple({(level.value, level.words): level for level in found}.values())


def _of_findings(site: str, metric: str, findings: Sequence[Finding]) -> list[Level]:
    return [
        Level(value, f"{sentence(name)} of {finding.rule}")
        for finding in findings
        if finding.site == site and finding.metric == metric
        for name, value in finding.evidence.items()
        if (name == "limit" or name.startswith("usual")) and abs(value) < float("inf")
    ]


def _of_watchpoints(run: Run, site: str, metric: str) -> list[Level]:
    """Bounds of conditions on the value itself; what a configuration spells wrongly is told elsewhere."""
    try:
        conditions = [one.condition for one in watchpoints_of(run.config)]
    except (InsightError, InvalidName):
        return []
    mine = [
        condition
        for condition in conditions
        if condition.statistic
        and not condition.is_change
        and metric_name(condition.subject, condition.statistic) == metric
        and fnmatchcase(site, condition.sites)
    ]
    return [Level(bound, one.text) for one in mine for bound in dict.fromkeys((one.low, one.high))]
