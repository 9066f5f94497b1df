"""Conditions that a person writes, and those that are to be watched for no more."""

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, ctx, html
from dash.exceptions import PreventUpdate

from ....insight import InsightError
from ....storage import InvalidName
from ...address import Address
from ...components import notice
from ...components.choices import choose, labelled, line_input, switch
from ...data import Reader, watch_for
from ...data.watched import asked_for, standings
from ...words import prose
from .ids import LONGEST, WHEN, Id


def connect_conditions(app: dash.Dash, reader: Reader) -> None:
    """Asks the run to watch for what was written, and no more for what was taken away."""

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


def add_bar(here: Address, is_open: bool) -> html.Div:
    """Where a condition is written."""
    example = "gradient/l2_norm @ decoder.* > 10 for 3 steps"
    label = f"Condition, such as {example}"
    line = line_input(Id.when, label, WHEN.of(here), 430, placeholder=example, longest=LONGEST)
    parts = [
        line,
        labelled("and then", switch(Id.deed, "What the training does when it is met", ("note", "halt"), "halt")),
        choose(Id.severity, "Severity of its findings", ("info", "warning", "error"), "warning", 100),
        dmc.Button("Add", id=Id.add, size="xs", disabled=not is_open),
    ]
    return html.Div(parts, className="bar")
