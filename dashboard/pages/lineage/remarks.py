"""Remarks on a run of the table, written on the page and kept in the store."""

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, html
from dash.exceptions import PreventUpdate

from ...data import Reader, annotate
from ...security import may_change
from .ids import Id, Row


def connect_remark(app: dash.Dash, reader: Reader) -> None:
    """Offers the remark on the run that is ticked, and keeps what was written."""

    @app.callback(
        Output(Id.remark, "value"),
        Output(Id.remark, "disabled"),
        Output(Id.save, "disabled"),
        Input(Id.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def offer(ticked: list[Row] | None) -> tuple[str, bool, bool]:
        is_closed = not ticked or not may_change()
        return (str(ticked[0].get("remark") or "") if ticked else ""), is_closed, is_closed

    @app.callback(
        Output(Id.said, "children"),
        Output(Id.tick, "n_intervals"),
        Input(Id.save, "n_clicks"),
        State(Id.remark, "value"),
        State(Id.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def save(clicks: int | None, remark: str | None, ticked: list[Row] | None) -> tuple[str, object]:
        if not clicks or not ticked:
            raise PreventUpdate
        run = reader.find(str(ticked[0]["id"]))
        annotate(reader, run.id, name=run.name, tags=run.tags, remark=(remark or "").strip())
        return f"The remark on {run.name} is kept.", 0


def remark_bar() -> html.Div:
    """Where a remark is written."""
    field = dmc.TextInput(
        id=Id.remark,
        placeholder="tick a run to remark on it",
        size="xs",
        w=420,
        disabled=True,
        **{"aria-label": "Remark on the run that is ticked"},
    )
    save = dmc.Button("Save the remark", id=Id.save, size="xs", disabled=True)
    return html.Div([field, save, html.Span(id=Id.said, role="status", className="muted")], className="bar remark-bar")
