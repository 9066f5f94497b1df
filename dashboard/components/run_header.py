"""The head of a page about one run: its name, how it is doing, and the way to another run."""

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from ...storage import Run
from ..words import age, count
from .badges import state_badge

_OFFERED = 300


def run_header(run: Run, status: Component, picker: Component, extra: Sequence[Component] = ()) -> html.Header:
    """The head; `status` is the part that live pages keep up to date."""
    title = html.H1(run.name or run.id, className="page-title", title=run.id)
    return html.Header(
        [
            html.Div([title, status], className="page-head-text"),
            html.Div([*extra, picker], className="page-head-controls"),
        ],
        className="page-head",
    )


def run_status(run: Run, now: float) -> list[Component]:
    """State, steps and age of a run, and its tags."""
    words = [run.kind if run.kind != "training" else "", run.framework, count(run.last_step + 1, "step")]
    fresh = "just now" if now - run.updated_at < 2 else f"{age(now - run.updated_at)} ago"
    text = " · ".join([word for word in words if word] + [f"updated {fresh}"])
    tags = [html.Span(f"{key} {value}", className="tag") for key, value in list(run.tags.items())[:8]]
    return [state_badge(run.state), html.Span(text, className="muted"), *tags]


def run_picker(name: str, runs: Sequence[Run], run: Run, label: str = "Run") -> dmc.Select:
    """A searchable list of the newest runs, this one chosen."""
    offered = list(runs[:_OFFERED])
    if all(one.id != run.id for one in offered):
        offered.append(run)
    return dmc.Select(
        id=name,
        data=[{"value": one.id, "label": f"{one.name or one.id} · {one.id[-4:]}"} for one in offered],
        value=run.id,
        searchable=True,
        allowDeselect=False,
        size="xs",
        w=230,
        comboboxProps={"width": 320, "position": "bottom-end"},
        **{"aria-label": label},
    )


def run_link(label: str, href: str) -> dcc.Link:
    """A link that looks like a button."""
    return dcc.Link(label, href=href, className="button")
