"""Small labels for states and severities: a shape and a word, never a colour alone."""

from typing import Final

from dash import html

from ...storage import RunState, Severity

_MARKS: Final = {
    "running": "●",
    "finished": "✓",
    "failed": "✕",
    "crashed": "✕",
    "error": "◆",
    "warning": "▲",
    "info": "●",
}


def state_badge(state: RunState) -> html.Span:
    """How the run is doing."""
    return _badge(state, state)


def severity_badge(severity: Severity) -> html.Span:
    """How bad a finding is."""
    return _badge(severity, severity)


def _badge(kind: str, words: str) -> html.Span:
    mark = html.Span(_MARKS[kind], className="badge-mark", **{"aria-hidden": "true"})
    return html.Span([mark, words], className=f"badge badge-{kind}")
