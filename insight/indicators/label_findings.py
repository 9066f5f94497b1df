"""How labels are reported that tell nothing of their inputs."""

from collections.abc import Mapping

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext


def report(context: StepContext, evidence: Mapping[str, float], words: str, since: int, confidence: float) -> Finding:
    """Return a warning about the labels of the whole model."""
    return context.finding(
        ROOT_SITE,
        "scalar/loss",
        dict(evidence),
        severity="warning",
        first_step=since,
        position=0,
        explanation=words,
        advice="print a few inputs beside their labels; look for one shuffled without the other, labels read from "
        "another file or split, an index that is off by one, and a constant target",
        confidence=confidence,
    )
