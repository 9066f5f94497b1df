"""Findings about labels that tell nothing of their inputs: how they are reported, asked and withdrawn."""

from collections.abc import Mapping
from dataclasses import replace

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


def asked(found: Finding, words: str) -> Finding:
    """Return the finding as a question: a slow start ends, and a sum of terms may rise by itself."""
    return replace(found, severity="info", confidence=0.5, explanation=words)


def withdrawn(found: Finding, context: StepContext, words: str) -> Finding:
    """Return the finding as a notice of what has shown that it was none."""
    return replace(found, step=context.step, severity="info", explanation=words, confidence=0.1)
