"""The head of a page about one run: its name, status and picker, and the headline cards with the verdict."""

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ...storage import Finding, Run, display_site
from ...storage.process import HEARTBEAT_S
from ...storage.training_kinds import TrainingKind
from ..address import PageAddress
from ..formatting import age, count, number, prose, sentence
from ..headline import Headline
from ..queries.result_queries import MainLoss
from .page_parts import card, state_badge

_OFFERED = 300
#: Seconds by which a heartbeat may be late. Our choice.
_LATE_S = 2.0


def run_header(run: Run, status: Component, picker: Component, extra: Sequence[Component] = ()) -> html.Header:
    """Build the head of a page; live pages keep `status` up to date."""
    title = html.H1(run.name or run.id, className="page-title", title=run.id)
    return html.Header(
        [
            html.Div([title, status], className="page-head-text"),
            html.Div([*extra, picker], className="page-head-controls"),
        ],
        className="page-head",
    )


def run_status(run: Run, now: float, training: TrainingKind | None = None) -> list[Component]:
    """State, steps and age of a run, and its tags.

    Args:
        training: The kind of training, where it is known.
    """
    kind = run.kind if run.kind != "training" else training.label if training is not None else ""
    words = [kind, run.framework, count(run.last_step + 1, "step"), _news(run, now)]
    text = " · ".join(word for word in words if word)
    tags = [html.Span(f"{key} {value}", className="tag") for key, value in list(run.tags.items())[:8]]
    return [state_badge(run.state_words), html.Span(text, className="muted"), *tags]


def _news(run: Run, now: float) -> str:
    """Return when the run was heard of last; a writer with nothing to write is heard of every `HEARTBEAT_S`."""
    silent = now - run.updated_at
    if run.state == "running" and silent >= HEARTBEAT_S + _LATE_S:
        return f"no news for {age(silent)}"
    return f"updated {'just now' if silent < 2 else f'{age(silent)} ago'}"


def run_picker(name: str, runs: Sequence[Run], run: Run, label: str = "Run") -> dmc.Select:
    """Build a searchable list of the newest runs, this one chosen."""
    offered = list(runs[:_OFFERED])
    if all(candidate.id != run.id for candidate in offered):
        offered.append(run)
    return dmc.Select(
        id=name,
        data=[
            {"value": candidate.id, "label": f"{candidate.name or candidate.id} · {candidate.id[-4:]}"}
            for candidate in offered
        ],
        value=run.id,
        searchable=True,
        allowDeselect=False,
        size="xs",
        w=230,
        comboboxProps={"width": 320, "position": "bottom-end"},
        **{"aria-label": label},
    )


def run_link(label: str, href: str) -> dcc.Link:
    """Build a link that looks like a button."""
    return dcc.Link(label, href=href, className="button")


def headline_cards(run: Run, headline: Headline, findings: int, loss: MainLoss) -> list[html.Div]:
    """Build the four cards of the verdict and that of the loss, and the advice below them."""
    cards = [
        _verdict(run, headline, findings),
        _where(run, headline),
        _cause(headline),
        _clean(run, headline),
        _loss(loss),
    ]
    return cards if headline.first is None else [*cards, _summary(headline.first)]


def _summary(first: Finding) -> html.Div:
    """Write one sentence with cause, site, step, symptom and advice."""
    claim = f"{sentence(first.cause)} at {display_site(first.site)} since step {first.first_step:,}. "
    parts: list[Component | str] = [html.Strong(claim), prose(first.explanation)]
    if first.advice:
        parts += [" ", html.Strong("What to do. "), prose(first.advice)]
    return html.Div(parts, className="lead")


def _verdict(run: Run, headline: Headline, findings: int) -> html.Div:
    address = PageAddress("findings", run=run.id)
    if headline.first is not None:
        note: str | Component = html.Span(
            [
                f"first anomaly at step {headline.clean_until + 1:,} · ",
                dcc.Link(count(findings, "finding"), href=address.href),
            ]
        )
    elif run.last_step < 0:
        note = "nothing has been recorded yet"
    else:
        judged = headline.judgement
        known = judged.reasons[:1] if judged.verdict == "undetermined" else ()
        known += (f"{count(len(judged.not_checked), 'thing')} not checked",) if judged.not_checked else ()
        asked = (count(len(judged.questions), "question"),) if judged.questions else ()
        note = "; ".join((f"no anomaly in {count(run.last_step + 1, 'step')}", *asked, *known))
    return card("Verdict", headline.verdict, note, headline.tone)


def _where(run: Run, headline: Headline) -> html.Div:
    if headline.first is None:
        return card("Where", "–", "no module or parameter has an anomaly")
    site = display_site(headline.first.site)
    address = PageAddress("run", run=run.id).at(headline.first.metric, headline.first.site, headline.first.first_step)
    link = dcc.Link(site, href=address.href, className="mono site-link", title=site)
    return card("Where", link, headline.first.metric)


def _cause(headline: Headline) -> html.Div:
    if headline.first is None:
        return card("Why", "–", "no anomaly to explain")
    confidence = headline.first.confidence
    note = "a fact, measured in this run" if confidence >= 1 else f"confidence {confidence:.0%}"
    return card("Why", sentence(headline.first.cause), note)


def _clean(run: Run, headline: Headline) -> html.Div:
    if run.last_step < 0:
        return card("Clean until", "–", "the last step before the first anomaly")
    value = f"step {number(headline.clean_until)}" if headline.clean_until >= 0 else "not at any step"
    return card("Clean until", value, f"of {count(run.last_step + 1, 'step')} recorded")


def _loss(loss: MainLoss) -> html.Div:
    ends = loss.ends
    label = "Loss" if loss.name in ("", "loss") else loss.name
    if not ends.count:
        return card(label, "–", "no loss was recorded")
    best = f"best {number(ends.best)} at step {ends.best_step:,}" if ends.best_step >= 0 else "never finite"
    return card(label, number(ends.last), best)
