"""Findings that become less than they were: asked, since they may be meant, or withdrawn, since they were none."""

from dataclasses import replace

from ...storage import Finding
from ..context.step_context import StepContext


def asked(found: Finding, words: str) -> Finding:
    """Return the finding as a question, which only a person can answer."""
    return replace(found, severity="info", confidence=0.5, explanation=words)


def withdrawn(found: Finding, context: StepContext, words: str) -> Finding:
    """Return the finding as a notice of what has shown that it was none."""
    return replace(found, step=context.step, severity="info", explanation=words, confidence=0.1)
