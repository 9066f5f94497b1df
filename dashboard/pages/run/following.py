"""What follows a run that is being written: one look per tick, cards, status, and the tail of the curve."""

import time

import dash
from dash import ClientsideFunction, Input, Output, State, no_update
from dash.exceptions import PreventUpdate

from ....storage import Run
from ...components import headline_cards, run_status
from ...data import Reader
from ...headline import headline_of
from ...ids import Live as Id
from ...live import from_json, look, to_json
from ...pictures.run import curve_name
from ...spans import span_of


def connect_following(app: dash.Dash, reader: Reader) -> None:
    """Keeps the page of a run that is being written up to date, for as long as nobody pauses it."""

    @app.callback(
        Output(Id.cursor, "data"),
        Output(Id.tail, "data"),
        Output(Id.redraw, "data"),
        Output(Id.beat, "data"),
        Output(Id.cards, "children"),
        Output(Id.status, "children"),
        Output(Id.follow, "style"),
        Input(Id.tick, "n_intervals"),
        State(Id.cursor, "data"),
        State(Id.run, "value"),
        State(Id.scalar, "value"),
        State(Id.scale, "value"),
        State(Id.span, "data"),
        prevent_initial_call=True,
    )
    def tick(count: int, data: object, reference: str, scalar: str, scale: str, span: str | None) -> tuple[object, ...]:
        """Answers in a few bytes when nothing has happened, in a few kilobytes when the run has gone on."""
        seen = from_json(data)
        run = reader.find(reference)
        news = look(reader, run.id, scalar, seen, log=scale == "log", is_over=run.state != "running")
        if news is None:
            raise PreventUpdate
        findings = reader.findings(run.id)
        tail = (
            {"name": curve_name(scalar, scale, span_of(span)), "x": news.tail.x, "y": news.tail.y}
            if news.tail
            else no_update
        )
        return (
            to_json(news.cursor),
            tail,
            count if news.redraw else no_update,
            count if news.beat else no_update,
            headline_cards(run, headline_of(reader, run), len(findings)),
            run_status(run, time.time()),
            offered(run),
        )

    app.clientside_callback(
        ClientsideFunction("mindscope", "extendCurve"),
        Output(Id.curve, "extendData"),
        Input(Id.tail, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("mindscope", "paused"),
        Output(Id.tick, "disabled"),
        Input(Id.follow, "checked"),
        prevent_initial_call=True,
    )


def offered(run: Run) -> dict[str, str]:
    """The style of the switch that follows a run: there is nothing to follow when it is over."""
    return {} if run.state == "running" else {"display": "none"}
