"""One finding with its evidence, its explanation and what to do about it."""

from dash import dcc, html

from ...storage import Finding, display_site
from ..address import Address
from ..words import number, prose, sentence
from .badges import severity_badge


def finding_card(run: str, finding: Finding, *, is_root: bool = False) -> html.Article:
    """The finding as a card; its place links to the tensor on the run's page."""
    place = Address("run", run=run).at(finding.metric, finding.site, finding.first_step)
    head = html.Div(
        [
            severity_badge(finding.severity),
            html.H3(sentence(finding.cause), className="finding-title"),
            html.Span(_since(finding), className="finding-since"),
        ],
        className="finding-head",
    )
    where = html.Div(
        [
            dcc.Link(display_site(finding.site), href=place.href, className="mono"),
            html.Span(finding.metric, className="mono muted"),
            *([html.Span(f"rank {finding.rank}", className="muted")] if finding.rank else []),
            html.Span(f"rule {finding.rule}", className="muted"),
            html.Span("fact" if finding.confidence >= 1 else f"confidence {finding.confidence:.0%}", className="muted"),
        ],
        className="finding-where",
    )
    advice = (
        html.P([html.Strong("What to do. "), prose(finding.advice)], className="finding-advice")
        if finding.advice
        else None
    )
    parts = [head, where, html.P(prose(finding.explanation), className="finding-text"), _evidence(finding), advice]
    return html.Article(
        [part for part in parts if part is not None], className="finding root" if is_root else "finding"
    )


def _since(finding: Finding) -> str:
    if finding.step == finding.first_step:
        return f"at step {finding.step:,}"
    return f"since step {finding.first_step:,}, seen at step {finding.step:,}"


def _evidence(finding: Finding) -> html.Dl | None:
    if not finding.evidence:
        return None
    pairs = [html.Div([html.Dt(sentence(name)), html.Dd(number(value))]) for name, value in finding.evidence.items()]
    return html.Dl(pairs, className="evidence")
