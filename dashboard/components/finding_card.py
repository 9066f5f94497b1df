"""One finding with its evidence, its explanation and what to do about it."""

from collections.abc import Callable

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ...storage import Finding, display_site
from ..address import Address
from ..ids import Findings as Id
from ..words import number, prose, sentence
from .badges import severity_badge

#: Where a number of a finding's evidence can be seen, by its name.
PlaceOf = Callable[[Finding, str], Address]


def finding_card(
    run: str, finding: Finding, place_of: PlaceOf, *, may_mute: bool, beside: Component | None = None
) -> html.Article:
    """The finding as a card; its place and each of its numbers lead to where they can be seen.

    Args:
        beside: Stands under the card, as what was ruled out does under a root cause.
    """
    parts = [
        _head(finding, may_mute=may_mute),
        _where(run, finding),
        html.P(prose(finding.explanation), className="finding-text"),
        _evidence(finding, place_of),
        _advice(finding),
        beside,
    ]
    return html.Article(
        [part for part in parts if part is not None], className="finding" if beside is None else "finding root"
    )


def _head(finding: Finding, *, may_mute: bool) -> html.Div:
    mute = dmc.Button(
        "Mute",
        id={"type": Id.mute, "at": f"{finding.first_step}.{finding.rank}", "rule": finding.rule, "site": finding.site},
        size="compact-xs",
        variant="default",
        disabled=not may_mute,
        **{"aria-label": f"Mute {sentence(finding.cause)} at {display_site(finding.site)}"},
    )
    return html.Div(
        [
            severity_badge(finding.severity),
            html.H3(sentence(finding.cause), className="finding-title"),
            html.Span(_since(finding), className="finding-since"),
            mute,
        ],
        className="finding-head",
    )


def _where(run: str, finding: Finding) -> html.Div:
    place = Address("run", run=run).at(finding.metric, finding.site, finding.first_step)
    return html.Div(
        [
            dcc.Link(display_site(finding.site), href=place.href, className="mono"),
            html.Span(finding.metric, className="mono muted"),
            *([html.Span(f"rank {finding.rank}", className="muted")] if finding.rank else []),
            html.Span(f"rule {finding.rule}", className="muted"),
            html.Span("fact" if finding.confidence >= 1 else f"confidence {finding.confidence:.0%}", className="muted"),
        ],
        className="finding-where",
    )


def _since(finding: Finding) -> str:
    if finding.step == finding.first_step:
        return f"at step {finding.step:,}"
    return f"since step {finding.first_step:,}, seen at step {finding.step:,}"


def _evidence(finding: Finding, place_of: PlaceOf) -> html.Dl | None:
    if not finding.evidence:
        return None
    pairs = [
        html.Div([html.Dt(sentence(name)), html.Dd(dcc.Link(number(value), href=place_of(finding, name).href))])
        for name, value in finding.evidence.items()
    ]
    return html.Dl(pairs, className="evidence")


def _advice(finding: Finding) -> html.P | None:
    if not finding.advice:
        return None
    return html.P([html.Strong("What to do. "), prose(finding.advice)], className="finding-advice")
