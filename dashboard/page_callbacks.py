"""Callbacks that pages share: polling for news of a run, and keeping controls and address in step."""

from collections.abc import Sequence
from typing import Final

import dash
from dash import ClientsideFunction, Input, Output, State, dcc
from dash.exceptions import PreventUpdate

from .address import QueryKey
from .components.shell import ShellIds
from .queries.reader import Reader

_EVERY_MS: Final = 2000


def polling_parts(tick: str, version: str, seen: str, *, every_ms: int = _EVERY_MS) -> list[dcc.Interval | dcc.Store]:
    """Return the parts that a polling page lays out once; `seen` is the version of the run that it shows."""
    return [dcc.Interval(id=tick, interval=every_ms), dcc.Store(id=version, data=seen)]


def connect_polling(app: dash.Dash, reader: Reader, *, tick: str, version: str, run: str) -> None:
    """Update `version` when the run has changed; callbacks that draw have it as an input.

    Args:
        tick: The id of the page's interval.
        version: The id of the `dcc.Store` with the version that the page shows.
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


#: The keys of addresses that all pages share.
METRIC, SITE, STEP = QueryKey("metric"), QueryKey("site"), QueryKey("step")
#: A component, the property with its chosen value, and the key of the address.
Control = tuple[str, str, QueryKey]


def control_keys(name: str, controls: Sequence[Control]) -> dcc.Store:
    """Pass the keys of the page's controls to the browser; laid out once on a page that calls `keep_address`."""
    return dcc.Store(id=name, data=[[key.name, key.usual] for _, _, key in controls])


def keep_address(app: dash.Dash, name: str, controls: Sequence[Control]) -> None:
    """Update the address in the browser whenever one of the controls has changed.

    Args:
        name: The id of the page's `control_keys`.
    """
    app.clientside_callback(
        ClientsideFunction("mindscope", "keepAddress"),
        Output(ShellIds.url, "search", allow_duplicate=True),
        Output(ShellIds.shown, "data", allow_duplicate=True),
        *(Input(component, part) for component, part, _ in controls),
        State(ShellIds.shown, "data"),
        State(name, "data"),
        prevent_initial_call=True,
    )


def keep_order(app: dash.Dash, grid: str, order: str) -> None:
    """Keep in a `dcc.Store` the column that sorts the grid, as an address spells it."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "orderOf"),
        Output(order, "data"),
        Input(grid, "columnState"),
        State(order, "data"),
        prevent_initial_call=True,
    )


def follow_run(app: dash.Dash, picker: str) -> None:
    """Open the same page of another run when one is chosen."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "chooseRun"),
        Output(ShellIds.url, "search", allow_duplicate=True),
        Input(picker, "value"),
        State(ShellIds.shown, "data"),
        prevent_initial_call=True,
    )
