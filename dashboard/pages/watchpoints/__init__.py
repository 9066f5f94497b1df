"""Watchpoints: what a run is watched for, what met it, and halting the training to look into it."""

import time
from typing import Final

import dash
from dash import dcc, html
from dash.development.base_component import Component

from ....storage import Run
from ...address import Address
from ...components import panel, run_header, run_picker, run_status
from ...controls import control_keys, follow_run, keep_address
from ...data import Reader
from ...page import page
from ...security import may_change
from .conditions import add_bar, connect_conditions
from .control import connect_control, control_bar, tensor_bar
from .ids import CONTROLS, FOLLOWING, SITES, SUBJECT, WHEN, Id
from .view import connect_view, following_parts, seen_now

_REFRESH_MS: Final = 1000
_CLOSED: Final = (
    "To tell the training something, open the address that the dashboard printed when it started: it carries the token."
)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Follows the training, and passes on what a person tells it."""
    connect_view(app, reader)
    connect_control(app, reader)
    connect_conditions(app, reader)
    keep_address(app, Id.keys, CONTROLS)
    follow_run(app, Id.run)


def _why_closed(run: Run) -> list[Component]:
    if run.state != "running":
        return [html.P(f"This run is {run.state}; only a running one can be told something.", className="muted")]
    return [] if may_change() else [html.P(_CLOSED, className="muted")]


@page("watchpoints", title="Watchpoints", icon="watchpoints", connect=connect, keys=(WHEN, SITES, SUBJECT))
def layout(reader: Reader, address: Address) -> Component:
    """What one run is watched for."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), id=Id.status, className="status")
    is_open = may_change() and run.state == "running"
    cards, conditions, hits, shown, others = (
        html.Div(part, id=name) for name, part in zip(FOLLOWING, following_parts(reader, run), strict=True)
    )
    cards.className = "cards"
    asked = [*_why_closed(run), add_bar(address, is_open), html.Div(id=Id.said, role="status"), conditions]
    words = html.P("Weights or gradients as they are at the end of the step, asked of the training.", className="muted")
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run), control_bar(is_open)),
            html.Div(id=Id.told, role="status", className="told"),
            cards,
            panel("Conditions", asked),
            panel("Hits", hits),
            panel("Tensors", [words, tensor_bar(address, is_open), shown]),
            panel("Running trainings", others),
            control_keys(Id.keys, CONTROLS),
            dcc.Store(id=Id.seen, data=seen_now(reader, run)),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
