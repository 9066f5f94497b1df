"""Watchpoints: what a run is watched for, what met it, and halting the training to look into it."""

import time
from typing import Any, Final, cast

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, ctx, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...insight import InsightError
from ...storage import Finding, InvalidName, Run
from ...storage.commands import Deed
from ..address import Address, Key
from ..components import notice, panel, run_header, run_picker, run_status
from ..components.choices import choose, line_input, switch
from ..components.watching import attached_table, conditions_table, halt_cards, hits_table, shown_table
from ..controls import control_keys, follow_run, keep_address
from ..data import Reader, tell, watch_for
from ..data.watched import Halt, Standing, asked_for, attached, halt_of, hits_of, refusal, standings
from ..page import page
from ..security import may_change
from ..words import prose

_REFRESH_MS: Final = 1000
#: Characters of a condition that an address carries, so that it stays below 300 bytes.
_LONGEST: Final = 110
_CLOSED: Final = (
    "To tell the training something, open the address that the dashboard printed when it started: it carries the token."
)
WHEN = Key("when")
SITES = Key("sites", "*")
SUBJECT = Key("subject", "weight", ("weight", "gradient"))


class Id:
    """What stands on this page."""

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
    told: Final = "watchpoints-told"
    when: Final = "watchpoints-when"
    deed: Final = "watchpoints-deed"
    severity: Final = "watchpoints-severity"
    add: Final = "watchpoints-add"
    remove: Final = "watchpoints-remove"
    said: Final = "watchpoints-said"
    conditions: Final = "watchpoints-conditions"
    hits: Final = "watchpoints-hits"
    sites: Final = "watchpoints-sites"
    subject: Final = "watchpoints-subject"
    show: Final = "watchpoints-show"
    shown: Final = "watchpoints-shown"
    attached: Final = "watchpoints-attached"


_CONTROLS: Final = ((Id.when, "value", WHEN), (Id.sites, "value", SITES), (Id.subject, "value", SUBJECT))
#: What of the page follows the training.
_FOLLOWING: Final = (Id.cards, Id.conditions, Id.hits, Id.shown, Id.attached)


def _parts(reader: Reader, run: Run) -> list[object]:
    """What follows the training, in the order of `_FOLLOWING`."""
    halt, hits = halt_of(reader, run), hits_of(reader, run)
    return [
        *_set(reader, run, halt, hits),
        hits_table(run, hits),
        shown_table(halt.state.tensors),
        attached_table(attached(reader)),
    ]


def _set(reader: Reader, run: Run, halt: Halt, hits: tuple[Finding, ...]) -> tuple[object, object]:
    """Cards and conditions; where somebody has set what is no condition, the words that say so."""
    found: tuple[Standing, ...] = ()
    try:
        found = standings(reader, run)
        table = conditions_table(run, found, Id.remove, may_change=may_change() and run.state == "running")
    except (InvalidName, InsightError) as error:
        table = notice(f"What this run is to be watched for is not understood. {prose(str(error))}")
    refused = refusal(reader, run)
    words = [notice(f"The training has refused what was asked of it last. {prose(refused)}")] if refused else []
    return halt_cards(run, halt, found, hits), [*words, table]


def _seen(reader: Reader, run: Run) -> list[object]:
    """What the page depends on besides the running trainings: it is laid out anew when this has changed."""
    halt = halt_of(reader, run)
    state = halt.state
    return [
        run.state,
        state.state,
        state.step if state.state == "paused" else run.last_step,
        state.obeyed,
        halt.is_pending,
        asked_for(reader, run),
        len(hits_of(reader, run)),
        [[one.id, other.state.state] for one, other in attached(reader)],
    ]


def connect(app: dash.Dash, reader: Reader) -> None:
    """Follows the training, and passes on what a person tells it."""
    _connect_view(app, reader)
    _connect_control(app, reader)
    _connect_conditions(app, reader)
    keep_address(app, Id.keys, _CONTROLS)
    follow_run(app, Id.run)


def _connect_view(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        *(Output(name, "children") for name in _FOLLOWING),
        Output(Id.status, "children"),
        Output(Id.seen, "data"),
        Input(Id.tick, "n_intervals"),
        State(Id.run, "value"),
        State(Id.seen, "data"),
        prevent_initial_call=True,
    )
    def follow(_: int, reference: str, seen: list[object]) -> tuple[object, ...]:
        run = reader.find(reference)
        now = _seen(reader, run)
        if now == seen:
            raise PreventUpdate
        return *_parts(reader, run), run_status(run, time.time()), now


def _connect_control(app: dash.Dash, reader: Reader) -> None:
    deeds = {Id.pause: "pause", Id.step: "step", Id.go_on: "continue", Id.show: "show"}

    @app.callback(
        Output(Id.told, "children"),
        *(Input(name, "n_clicks") for name in deeds),
        State(Id.steps, "value"),
        State(Id.subject, "value"),
        State(Id.sites, "value"),
        State(Id.run, "value"),
        prevent_initial_call=True,
    )
    def command(*said: Any) -> str:
        pressed = ctx.triggered_id
        if pressed not in deeds or not ctx.triggered[0]["value"]:
            raise PreventUpdate
        steps, subject, sites, reference = said[-4:]
        number = steps if isinstance(steps, int) and steps > 0 else 1
        do = cast("Deed", deeds[pressed])
        tell(reader, reader.find(reference), do, steps=number, subject=str(subject), sites=sites or "*")
        return f"Told the training to {do}; it does so at the end of its step."


def _connect_conditions(app: dash.Dash, reader: Reader) -> None:
    @app.callback(
        Output(Id.said, "children"),
        Input(Id.add, "n_clicks"),
        Input(Id.when, "n_submit"),
        State(Id.when, "value"),
        State(Id.deed, "value"),
        State(Id.severity, "value"),
        State(Id.run, "value"),
        prevent_initial_call=True,
    )
    def add(clicks: int | None, entered: int | None, line: str | None, deed: str, severity: str, reference: str) -> Any:
        if not (clicks or entered) or not (line or "").strip():
            raise PreventUpdate
        run = reader.find(reference)
        entry: dict[str, Any] = {"when": " ".join(str(line).split()), "severity": severity, "pause": deed == "halt"}
        try:
            watch_for(reader, run, [*asked_for(reader, run), entry])
        except (InvalidName, InsightError) as error:
            return notice(prose(str(error)))
        return f"Asked for {entry['when']}; the training takes it over at its next step."

    @app.callback(
        Output(Id.said, "children", allow_duplicate=True),
        Input({"type": Id.remove, "name": ALL}, "n_clicks"),
        State(Id.run, "value"),
        prevent_initial_call=True,
    )
    def remove(_: object, reference: str) -> str:
        pressed = ctx.triggered_id
        if not pressed or not ctx.triggered[0]["value"]:
            raise PreventUpdate
        run, name = reader.find(reference), pressed["name"]
        kept = [
            entry
            for entry, one in zip(asked_for(reader, run), standings(reader, run), strict=True)
            if one.watchpoint.name != name
        ]
        watch_for(reader, run, kept)
        return f"Asked to watch for {name} no more."


def _control_bar(is_open: bool) -> list[Component]:
    how = {"size": "xs", "disabled": not is_open}
    return [
        dmc.Button("Pause", id=Id.pause, **how),
        dmc.Button("Step", id=Id.step, variant="default", **how),
        dmc.NumberInput(
            id=Id.steps,
            value=1,
            min=1,
            allowDecimal=False,
            size="xs",
            w=70,
            **{"aria-label": "Steps until it waits again"},
        ),
        dmc.Button("Continue", id=Id.go_on, variant="default", **how),
    ]


def _add_bar(here: Address, is_open: bool) -> html.Div:
    example = "gradient/l2_norm @ decoder.* > 10 for 3 steps"
    label = f"Condition, such as {example}"
    line = line_input(Id.when, label, WHEN.of(here), 430, placeholder=example, longest=_LONGEST)
    parts = [
        line,
        switch(Id.deed, "What the training does when it is met", ("note", "halt"), "halt"),
        choose(Id.severity, "Severity of its findings", ("info", "warning", "error"), "warning", 100),
        dmc.Button("Add", id=Id.add, size="xs", disabled=not is_open),
    ]
    return html.Div(parts, className="bar")


def _tensor_bar(here: Address, is_open: bool) -> html.Div:
    label = "Sites whose tensors are shown, as a glob"
    sites = line_input(Id.sites, label, SITES.of(here), 220, placeholder="decoder.*.weight", longest=_LONGEST // 2)
    parts = [
        sites,
        switch(Id.subject, "What is shown", SUBJECT.words, SUBJECT.of(here)),
        dmc.Button("Show", id=Id.show, size="xs", disabled=not is_open),
    ]
    return html.Div(parts, className="bar")


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
        html.Div(part, id=name) for name, part in zip(_FOLLOWING, _parts(reader, run), strict=True)
    )
    cards.className = "cards"
    asked = [*_why_closed(run), _add_bar(address, is_open), html.Div(id=Id.said, role="status"), conditions]
    words = html.P("Weights or gradients as they are at the end of the step, asked of the training.", className="muted")
    return html.Div(
        [
            run_header(run, status, run_picker(Id.run, reader.runs(), run), _control_bar(is_open)),
            html.Div(id=Id.told, role="status", className="told"),
            cards,
            panel("Conditions", asked),
            panel("Hits", hits),
            panel("Tensors", [words, _tensor_bar(address, is_open), shown]),
            panel("Running trainings", others),
            control_keys(Id.keys, _CONTROLS),
            dcc.Store(id=Id.seen, data=_seen(reader, run)),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
