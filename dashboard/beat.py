"""A page that follows its run: every few seconds one small question, and pictures anew when something was written."""

from typing import Final

import dash
from dash import Input, Output, State, dcc
from dash.exceptions import PreventUpdate

from .data import Reader

_EVERY_MS: Final = 2000


def beat(tick: str, version: str, seen: str) -> list[dcc.Interval | dcc.Store]:
    """The parts that a page lays out once; `seen` is the version of the run that it shows."""
    return [dcc.Interval(id=tick, interval=_EVERY_MS), dcc.Store(id=version, data=seen)]


def connect_beat(app: dash.Dash, reader: Reader, *, tick: str, version: str, run: str) -> None:
    """Changes `version` when the run has changed; a callback that draws has it as an input.

    Args:
        tick: The id of the page's interval.
        version: The id of the store that holds what the page shows.
        run: The id of the run's picker.
    """

    @app.callback(
        Output(version, "data"),
        Input(tick, "n_intervals"),
        State(run, "value"),
        State(version, "data"),
        prevent_initial_call=True,
    )
    def look(_: int, reference: str, seen: str | None) -> str:
        now = reader.version(reference)
        if now == seen:
            raise PreventUpdate
        return now
