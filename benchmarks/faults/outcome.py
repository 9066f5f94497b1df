"""What a diagnosis said of one run, as plain values that travel between processes and into a file."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

from mindscope.insight import Diagnosis
from mindscope.insight.root_causes import PERFORMANCE
from mindscope.storage import Finding

#: The severity of a finding that asks what is meant: it names what is there, and calls no run unhealthy.
QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Alarm:
    """One finding that is worse than a notice, or a question.

    Args:
        step: When it was said.
        first_step: Since when it is said to be wrong.
        confidence: As the finding says it.
    """

    rule: str
    cause: str
    severity: str
    site: str
    rank: int
    step: int
    first_step: int
    explanation: str = ""
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a case.

    Args:
        sites: Where it is truly at fault, `rank` and `onset` likewise.
        alarms: Everything that was found, by step.
        roots: What was named as a root cause, most probable first.
        verdict: Of the diagnosis.
        seconds: Of the run, its diagnosis included.
        error: What ended the training, empty if nothing did.
    """

    case: str
    seed: int
    sites: tuple[str, ...] = ()
    rank: int | None = None
    onset: int = 0
    alarms: tuple[Alarm, ...] = ()
    roots: tuple[Alarm, ...] = ()
    verdict: str = ""
    seconds: float = 0.0
    error: str = ""

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Self:
        """What such a line says."""
        values: dict[str, Any] = json.loads(line)
        for name in ("alarms", "roots"):
            values[name] = tuple(Alarm(**one) for one in values[name])
        return cls(**{**values, "sites": tuple(values["sites"])})


def alarms_of(findings: tuple[Finding, ...]) -> tuple[Alarm, ...]:
    """Those that are no mere notices and not about the monitor itself."""
    return tuple(
        _alarm(finding, finding.severity)
        for finding in findings
        if finding.severity != "info" and finding.cause != "monitor_fault"
    )


def said(diagnosis: Diagnosis) -> tuple[tuple[Alarm, ...], tuple[Alarm, ...]]:
    """Alarms and root causes of a diagnosis.

    Its questions are a severity of their own: they come after both, and before what only costs time.
    """
    asked = tuple(_alarm(finding, QUESTION) for finding in diagnosis.questions)
    roots = (*alarms_of(diagnosis.root_causes), *asked)
    ranked = sorted(roots, key=lambda root: root.cause in PERFORMANCE)
    return (*alarms_of(diagnosis.findings), *asked), tuple(ranked)


def _alarm(finding: Finding, severity: str) -> Alarm:
    return Alarm(
        finding.rule,
        finding.cause,
        severity,
        finding.site,
        finding.rank,
        finding.step,
        finding.first_step,
        finding.explanation,
        finding.confidence,
    )
