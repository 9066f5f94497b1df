"""Controls and address of a page in step: what a person chooses stands in the URL, and the URL lays out the choice."""

from collections.abc import Sequence

import dash
from dash import ClientsideFunction, Input, Output, State, dcc

from .address import Key
from .ids import Shell

#: What every page may say: the keys of the addresses that are not a page's own.
METRIC, SITE, STEP = Key("metric"), Key("site"), Key("step")
#: A component with the property that holds what a person chose, and the key that it stands under.
Control = tuple[str, str, Key]


def control_keys(name: str, controls: Sequence[Control]) -> dcc.Store:
    """Tells the browser the keys of the page's controls; laid out once on a page that calls `keep_address`."""
    return dcc.Store(id=name, data=[[key.name, key.usual] for _, _, key in controls])


def keep_address(app: dash.Dash, name: str, controls: Sequence[Control]) -> None:
    """Writes the address anew, in the browser, whenever one of the controls has changed.

    Args:
        name: The id of the page's `control_keys`.
    """
    app.clientside_callback(
        ClientsideFunction("mindscope", "keepAddress"),
        Output(Shell.url, "search", allow_duplicate=True),
        Output(Shell.shown, "data", allow_duplicate=True),
        *(Input(component, part) for component, part, _ in controls),
        State(Shell.shown, "data"),
        State(name, "data"),
        prevent_initial_call=True,
    )


def keep_order(app: dash.Dash, grid: str, order: str) -> None:
    """The `dcc.Store` has by which column the grid is sorted, as an address spells it."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "orderOf"),
        Output(order, "data"),
        Input(grid, "columnState"),
        State(order, "data"),
        prevent_initial_call=True,
    )


def follow_run(app: dash.Dash, picker: str) -> None:
    """Leads to the same page of another run when one is chosen."""
    app.clientside_callback(
        ClientsideFunction("mindscope", "chooseRun"),
        Output(Shell.url, "search", allow_duplicate=True),
        Input(picker, "value"),
        State(Shell.shown, "data"),
        prevent_initial_call=True,
    )
