"""The four things a reader came for: what is wrong first, where, why, and until when all was well."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..insight import root_causes
from ..storage import Finding, Run, Structure
from .data.reader import Reader

Tone = Literal["good", "bad", "watch", "quiet"]


@dataclass(frozen=True, slots=True)
class Headline:
    """The state of a run in one breath.

    Args:
        first: The finding that everything else follows from, None while there is none.
        clean_until: The last step before it, -1 when it was there from the start.
        tone: How the verdict is to be felt.
    """

    verdict: str
    tone: Tone
    first: Finding | None
    clean_until: int


def headline_of(reader: Reader, run: Run) -> Headline:
    """The headline of a recorded run."""
    return headline(run, reader.findings(run.id), lambda: reader.structure(run.id))


def headline(run: Run, findings: Sequence[Finding], structure: Callable[[], Structure] | None = None) -> Headline:
    """The headline of a run from its findings.

    Args:
        structure: Reads the model's, by whose data flow one finding is told from its consequences.
    """
    roots = root_causes(findings, structure() if structure and len(findings) > 1 else None)
    if roots:
        first = roots[0]
        is_error = any(finding.severity == "error" for finding in findings)
        return Headline(
            "Unhealthy" if is_error else "Needs a look", "bad" if is_error else "watch", first, first.first_step - 1
        )
    if run.last_step < 0:
        return Headline("Waiting for the first step", "quiet", None, -1)
    if run.state in ("failed", "crashed"):
        return Headline("Ended early", "watch", None, run.last_step)
    return Headline("Healthy", "good", None, run.last_step)
