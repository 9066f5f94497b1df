"""The buttons that halt a training, step it, let it go on and show its tensors."""

from typing import Any, cast

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, ctx, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....storage.mail.commands import Deed
from ...address import Address
from ...components.choices import line_input, switch
from ...data import Reader, tell
from .ids import LONGEST, SITES, SUBJECT, Id


def connect_control(app: dash.Dash, reader: Reader) -> None:
    """Passes what was pressed on to the training."""
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


def control_bar(is_open: bool) -> list[Component]:
    """Pause, step and continue."""
    how = {"size": "xs", "disabled": not is_open}
    return [
        dmc.Button("Pause", id=Id.pause, **how),
        dmc.Button("Step", id=Id.step, variant="default", **how),
        dmc.NumberInput(
            id=Id.steps,
            value=1,
            min=1,
            allowDecimal=False,
            w=70,
            **how,
            **{"aria-label": "Steps until it waits again"},
        ),
        dmc.Button("Continue", id=Id.go_on, variant="default", **how),
    ]


def tensor_bar(here: Address, is_open: bool) -> html.Div:
    """Which tensors are asked for."""
    label = "Sites whose tensors are shown, as a glob"
    sites = line_input(Id.sites, label, SITES.of(here), 220, placeholder="decoder.*.weight", longest=LONGEST // 2)
    parts = [
        sites,
        switch(Id.subject, "What is shown", SUBJECT.words, SUBJECT.of(here)),
        dmc.Button("Show", id=Id.show, size="xs", disabled=not is_open),
    ]
    return html.Div(parts, className="bar")
