"""Watchpoints of a run, their hits, and control of the running training."""

import time
from typing import Final, cast

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, ctx, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....insight import InsightError
from ....storage import Finding, InvalidName, Json, Run
from ....storage.control_channel import Action
from ...address import PageAddress, QueryKey
from ...components.form_controls import choose, labelled, line_input, switch
from ...components.page_parts import notice, panel
from ...components.run_header import run_header, run_picker, run_status
from ...formatting import prose
from ...page_callbacks import control_keys, follow_run, keep_address
from ...page_registry import page
from ...queries.reader import Reader
from ...queries.store_changes import command_training, request_watchpoints
from ...queries.watchpoint_queries import (
    TrainingStatus,
    WatchpointStatus,
    hits_of,
    refusal,
    requested_watchpoints,
    running_trainings,
    training_status,
    watchpoint_statuses,
)
from ...security import may_change
from .watchpoint_tables import conditions_table, hits_table, shown_table, status_cards, trainings_table

#: Characters of a condition that an address carries, so that it stays below 300 bytes.
LONGEST: Final = 110
WHEN = QueryKey("when")
SITES = QueryKey("sites", "*")
SUBJECT = QueryKey("subject", "weight", ("weight", "gradient"))


class WatchpointsIds:
    """Ids of the components of this page."""

    run: Final = "watchpoints-run"
    keys: Final = "watchpoints-keys"
    tick: Final = "watchpoints-tick"
    seen: Final = "watchpoints-seen"
    status: Final = "watchpoints-status"
    cards: Final = "watchpoints-cards"
    pause: Final = "watchpoints-pause"
    step: Final = "watchpoints-step"
    steps: Final = "watchpoints-steps"
    go_on: Final = "watchpoints-continue"
    command_message: Final = "watchpoints-message"
    when: Final = "watchpoints-when"
    deed: Final = "watchpoints-deed"
    severity: Final = "watchpoints-severity"
    add: Final = "watchpoints-add"
    remove: Final = "watchpoints-remove"
    message: Final = "watchpoints-said"
    conditions: Final = "watchpoints-conditions"
    hits: Final = "watchpoints-hits"
    sites: Final = "watchpoints-sites"
    subject: Final = "watchpoints-subject"
    show: Final = "watchpoints-show"
    shown: Final = "watchpoints-shown"
    running_trainings: Final = "watchpoints-attached"


CONTROLS: Final = (
    (WatchpointsIds.when, "value", WHEN),
    (WatchpointsIds.sites, "value", SITES),
    (WatchpointsIds.subject, "value", SUBJECT),
)
#: The parts of the page that follow the training.
FOLLOWING: Final = (
    WatchpointsIds.cards,
    WatchpointsIds.conditions,
    WatchpointsIds.hits,
    WatchpointsIds.shown,
    WatchpointsIds.running_trainings,
)


def following_parts(reader: Reader, run: Run) -> list[object]:
    """Return the parts that follow the training, in the order of `FOLLOWING`."""
    halt, hits = training_status(reader, run), hits_of(reader, run)
    return [
        *_conditions(reader, run, halt, hits),
        hits_table(run, hits),
        shown_table(halt.state.tensors),
        trainings_table(running_trainings(reader)),
    ]


def _conditions(reader: Reader, run: Run, halt: TrainingStatus, hits: tuple[Finding, ...]) -> tuple[object, object]:
    """Build cards and conditions; an invalid condition is explained instead."""
    found: tuple[WatchpointStatus, ...] = ()
    try:
        found = watchpoint_statuses(reader, run)
        table = conditions_table(run, found, WatchpointsIds.remove, may_change=may_change() and run.state == "running")
    except (InvalidName, InsightError) as error:
        table = notice(f"The watchpoints of this run are invalid. {prose(str(error))}")
    refused = refusal(reader, run)
    words = [notice(f"The training refused the last request. {prose(refused)}")] if refused else []
    return status_cards(run, halt, found, hits), [*words, table]


def seen_now(reader: Reader, run: Run) -> list[object]:
    """Return what the page depends on besides the running trainings: a change redraws it."""
    halt = training_status(reader, run)
    state = halt.state
    return [
        run.state,
        state.state,
        state.step if state.state == "paused" else run.last_step,
        state.obeyed,
        halt.is_pending,
        requested_watchpoints(reader, run),
        len(hits_of(reader, run)),
        [[other_run.id, other.state.state] for other_run, other in running_trainings(reader)],
    ]


def connect_view(app: dash.Dash, reader: Reader) -> None:
    """Redraw what follows the training when the training has moved on."""

    @app.callback(
        *(Output(name, "children") for name in FOLLOWING),
        Output(WatchpointsIds.status, "children"),
        Output(WatchpointsIds.seen, "data"),
        Input(WatchpointsIds.tick, "n_intervals"),
        State(WatchpointsIds.run, "value"),
        State(WatchpointsIds.seen, "data"),
        prevent_initial_call=True,
    )
    def follow(_: int, reference: str, seen: list[object]) -> tuple[object, ...]:
        run = reader.find(reference)
        now = seen_now(reader, run)
        if now == seen:
            raise PreventUpdate
        return *following_parts(reader, run), run_status(run, time.time()), now


def connect_control(app: dash.Dash, reader: Reader) -> None:
    """Send the commands of pressed buttons to the training."""
    commands = {
        WatchpointsIds.pause: "pause",
        WatchpointsIds.step: "step",
        WatchpointsIds.go_on: "continue",
        WatchpointsIds.show: "show",
    }

    @app.callback(
        Output(WatchpointsIds.command_message, "children"),
        *(Input(name, "n_clicks") for name in commands),
        State(WatchpointsIds.steps, "value"),
        State(WatchpointsIds.subject, "value"),
        State(WatchpointsIds.sites, "value"),
        State(WatchpointsIds.run, "value"),
        prevent_initial_call=True,
    )
    def command(*values: object) -> str:
        pressed = ctx.triggered_id
        if pressed not in commands or not ctx.triggered[0]["value"]:
            raise PreventUpdate
        steps, subject, sites, reference = values[-4:]
        number = steps if isinstance(steps, int) and steps > 0 else 1
        do = cast("Action", commands[pressed])
        command_training(
            reader, reader.find(str(reference)), do, steps=number, subject=str(subject), sites=str(sites or "*")
        )
        return f"Sent {do} to the training; it acts at the end of its step."


def control_bar(is_open: bool) -> list[Component]:
    """Pause, step and continue."""
    how = {"size": "xs", "disabled": not is_open}
    return [
        dmc.Button("Pause", id=WatchpointsIds.pause, **how),
        dmc.Button("Step", id=WatchpointsIds.step, variant="default", **how),
        dmc.NumberInput(
            id=WatchpointsIds.steps,
            value=1,
            min=1,
            allowDecimal=False,
            w=70,
            **how,
            **{"aria-label": "Steps until it waits again"},
        ),
        dmc.Button("Continue", id=WatchpointsIds.go_on, variant="default", **how),
    ]


def tensor_bar(here: PageAddress, is_open: bool) -> html.Div:
    """Build the bar that chooses which tensors to show."""
    label = "Sites whose tensors are shown, as a glob"
    sites = line_input(
        WatchpointsIds.sites, label, SITES.of(here), 220, placeholder="decoder.*.weight", longest=LONGEST // 2
    )
    parts = [
        sites,
        switch(WatchpointsIds.subject, "What is shown", SUBJECT.words, SUBJECT.of(here)),
        dmc.Button("Show", id=WatchpointsIds.show, size="xs", disabled=not is_open),
    ]
    return html.Div(parts, className="bar")


def connect_conditions(app: dash.Dash, reader: Reader) -> None:
    """Add typed conditions to the run's watchpoints, and remove deleted ones."""

    @app.callback(
        Output(WatchpointsIds.message, "children"),
        Input(WatchpointsIds.add, "n_clicks"),
        Input(WatchpointsIds.when, "n_submit"),
        State(WatchpointsIds.when, "value"),
        State(WatchpointsIds.deed, "value"),
        State(WatchpointsIds.severity, "value"),
        State(WatchpointsIds.run, "value"),
        prevent_initial_call=True,
    )
    def add(
        clicks: int | None, entered: int | None, line: str | None, deed: str, severity: str, reference: str
    ) -> object:
        if not (clicks or entered) or not (line or "").strip():
            raise PreventUpdate
        run = reader.find(reference)
        entry: dict[str, Json] = {"when": " ".join(str(line).split()), "severity": severity, "pause": deed == "halt"}
        try:
            request_watchpoints(reader, run, [*requested_watchpoints(reader, run), entry])
        except (InvalidName, InsightError) as error:
            return notice(prose(str(error)))
        return f"Added {entry['when']}; the training applies it at its next step."

    @app.callback(
        Output(WatchpointsIds.message, "children", allow_duplicate=True),
        Input({"type": WatchpointsIds.remove, "name": ALL}, "n_clicks"),
        State(WatchpointsIds.run, "value"),
        prevent_initial_call=True,
    )
    def remove(_: object, reference: str) -> str:
        pressed = ctx.triggered_id
        if not pressed or not ctx.triggered[0]["value"]:
            raise PreventUpdate
        run, name = reader.find(reference), pressed["name"]
        remaining = [
            entry
            for entry, status in zip(requested_watchpoints(reader, run), watchpoint_statuses(reader, run), strict=True)
            if status.watchpoint.name != name
        ]
        request_watchpoints(reader, run, remaining)
        return f"Removed {name}; the training applies this at its next step."


def add_bar(here: PageAddress, is_open: bool) -> html.Div:
    """Build the bar in which a condition is written."""
    example = "gradient/l2_norm @ decoder.* > 10 for 3 steps"
    label = f"Condition, such as {example}"
    line = line_input(WatchpointsIds.when, label, WHEN.of(here), 430, placeholder=example, longest=LONGEST)
    parts = [
        line,
        labelled(
            "and then", switch(WatchpointsIds.deed, "What the training does when it is met", ("note", "halt"), "halt")
        ),
        choose(WatchpointsIds.severity, "Severity of its findings", ("info", "warning", "error"), "warning", 100),
        dmc.Button("Add", id=WatchpointsIds.add, size="xs", disabled=not is_open),
    ]
    return html.Div(parts, className="bar")


_REFRESH_MS: Final = 1000
_CLOSED: Final = "To send commands, open the address that the dashboard printed when it started: it contains the token."


def connect(app: dash.Dash, reader: Reader) -> None:
    """Follow the training, and send it the visitor's commands."""
    connect_view(app, reader)
    connect_control(app, reader)
    connect_conditions(app, reader)
    keep_address(app, WatchpointsIds.keys, CONTROLS)
    follow_run(app, WatchpointsIds.run)


def _why_closed(run: Run) -> list[Component]:
    if run.state != "running":
        return [html.P(f"This run is {run.state_words}; only a running training accepts commands.", className="muted")]
    return [] if may_change() else [html.P(_CLOSED, className="muted")]


@page("watchpoints", title="Watchpoints", icon="watchpoints", connect=connect, keys=(WHEN, SITES, SUBJECT))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the watchpoints of one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), id=WatchpointsIds.status, className="status")
    is_open = may_change() and run.state == "running"
    cards, conditions, hits, shown, others = (
        html.Div(part, id=name) for name, part in zip(FOLLOWING, following_parts(reader, run), strict=True)
    )
    cards.className = "cards"
    conditions_part = [
        *_why_closed(run),
        add_bar(address, is_open),
        html.Div(id=WatchpointsIds.message, role="status"),
        conditions,
    ]
    words = html.P("Weights or gradients at the end of the step, requested from the training.", className="muted")
    return html.Div(
        [
            run_header(run, status, run_picker(WatchpointsIds.run, reader.runs(), run), control_bar(is_open)),
            html.Div(id=WatchpointsIds.command_message, role="status", className="messages"),
            cards,
            panel("Conditions", conditions_part),
            panel("Hits", hits),
            panel("Tensors", [words, tensor_bar(address, is_open), shown]),
            panel("Running trainings", others),
            control_keys(WatchpointsIds.keys, CONTROLS),
            dcc.Store(id=WatchpointsIds.seen, data=seen_now(reader, run)),
            dcc.Interval(id=WatchpointsIds.tick, interval=_REFRESH_MS),
        ]
    )
