"""The headline of a run: verdict, where, why, how long all was well, and what to do."""

from dash import dcc, html
from dash.development.base_component import Component

from ...storage import Finding, Run, display_site
from ..address import Address
from ..headline import Headline
from ..words import count, number, prose, sentence


def headline_cards(run: Run, headline: Headline, findings: int) -> list[html.Div]:
    """The four cards, each one thing in large and where it comes from in small; under them what to do about it."""
    cards = [
        _verdict(run, headline, findings),
        _where(run, headline),
        _cause(headline),
        _clean(run, headline),
    ]
    return cards if headline.first is None else [*cards, _told(headline.first)]


def _told(first: Finding) -> html.Div:
    """Cause, site and step in one sentence, how it shows, and what to do."""
    claim = f"{sentence(first.cause)} at {display_site(first.site)} since step {first.first_step:,}. "
    parts: list[Component | str] = [html.Strong(claim), prose(first.explanation)]
    if first.advice:
        parts += [" ", html.Strong("What to do. "), prose(first.advice)]
    return html.Div(parts, className="lead")


def card(label: str, value: str | Component, note: str | Component, tone: str = "") -> html.Div:
    """One thing in large under its name, and where it comes from in small."""
    parts = [
        html.Div(label, className="card-label"),
        html.Div(value, className="card-value"),
        html.Div(note, className="card-note"),
    ]
    return html.Div(parts, className=f"card card-{tone}" if tone else "card")


def _verdict(run: Run, headline: Headline, findings: int) -> html.Div:
    address = Address("findings", run=run.id)
    if headline.first is not None:
        note: str | Component = html.Span(
            [
                f"first anomaly at step {headline.first.first_step:,} · ",
                dcc.Link(count(findings, "finding"), href=address.href),
            ]
        )
    elif run.error:
        note = run.error
    elif run.last_step < 0:
        note = "nothing has been recorded yet"
    else:
        note = f"no anomaly in {count(run.last_step + 1, 'step')}"
    return card("Verdict", headline.verdict, note, headline.tone)


def _where(run: Run, headline: Headline) -> html.Div:
    if headline.first is None:
        return card("Where", "–", "the first bad module or parameter would stand here")
    site = display_site(headline.first.site)
    address = Address("run", run=run.id).at(headline.first.metric, headline.first.site, headline.first.first_step)
    link = dcc.Link(site, href=address.href, className="mono site-link", title=site)
    return card("Where", link, headline.first.metric)


def _cause(headline: Headline) -> html.Div:
    if headline.first is None:
        return card("Why", "–", "its cause, with the evidence under Findings")
    sure = headline.first.confidence
    note = "a fact, not an estimate" if sure >= 1 else f"confidence {sure:.0%}"
    return card("Why", sentence(headline.first.cause), note)


def _clean(run: Run, headline: Headline) -> html.Div:
    if run.last_step < 0:
        return card("Clean until", "–", "the last step before the first anomaly")
    value = f"step {number(headline.clean_until)}" if headline.clean_until >= 0 else "not from the start"
    return card("Clean until", value, f"of {count(run.last_step + 1, 'step')} recorded")
