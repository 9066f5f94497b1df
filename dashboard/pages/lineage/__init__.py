"""Lineage: the runs of the store by their parameters and results, and which parameters make the difference."""

from typing import Final

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...address import Address
from ...components import empty_state, graph, panel
from ...components.choices import choose, line_input
from ...components.lineage_grid import lineage_grid
from ...controls import control_keys, keep_address, keep_order
from ...data import Reader
from ...data.lineages import Origins
from ...page import page
from .ids import AXES, CONTROLS, FIELDS, HIDDEN, OF, ORDER, WHERE, Id
from .pictures import connect_pictures
from .remarks import connect_remark, remark_bar
from .table import connect_table

_REFRESH_MS: Final = 2000
#: Characters of the conditions that an address carries.
_LONGEST: Final = 110


def connect(app: dash.Dash, reader: Reader) -> None:
    """Fills the table and draws what results depend on; keeps remarks."""
    origins = Origins(reader)
    connect_table(app, reader, origins)
    connect_pictures(app, origins)
    connect_remark(app, reader)

    @app.callback(
        Output(Id.seen, "data"), Input(Id.tick, "n_intervals"), State(Id.seen, "data"), prevent_initial_call=True
    )
    def look(_: int, seen: str) -> str:
        now = origins.look().version
        if now == seen:
            raise PreventUpdate
        return now

    keep_order(app, Id.grid, Id.order)
    keep_address(app, Id.keys, CONTROLS)


def _controls(here: Address) -> list[Component]:
    example = "lr > 0.01, state = finished"
    label = f"Conditions that runs must meet, such as {example}"
    where = line_input(Id.where, label, WHERE.of(here), 240, placeholder=example, longest=_LONGEST)
    chosen = [name for name in FIELDS.of(here).split(",") if name]
    fields = dmc.MultiSelect(
        id=Id.fields,
        data=chosen,
        value=chosen,
        placeholder="parameters that differ",
        maxValues=AXES,
        searchable=True,
        limit=300,
        size="xs",
        maw=520,
        nothingFoundMessage="Nothing of that name",
        **{"aria-label": "Parameters that are shown"},
    )
    return [where, fields, choose(Id.result, "Result", [OF.of(here)], OF.of(here), 180)]


def _no_runs() -> Component:
    return empty_state(
        "No runs yet",
        "Watch a training and it appears here with its parameters and its results; tags such as "
        '`ms.watch(..., tags={"lr": 0.1})` are parameters.',
        "or type `mindscope demo` for one with everything in it.",
    )


@page(
    "lineage",
    title="Lineage",
    icon="lineage",
    connect=connect,
    needs_run=False,
    keys=(WHERE, OF, FIELDS, ORDER),
)
def layout(reader: Reader, address: Address) -> Component:
    """The runs of the store side by side."""
    has_runs = bool(reader.runs())
    head = html.Header(
        html.Div(
            [html.H1("Lineage", className="page-title"), html.Span(id=Id.counts, className="muted")],
            className="page-head-text",
        ),
        className="page-head",
    )
    table = [html.Div(id=Id.note), dcc.Loading(lineage_grid(Id.grid), delay_show=300), remark_bar()]
    lines = graph(Id.parallel, "one line for every run through its parameters and its result")
    bars = graph(Id.importance, "share of the result's variance that each parameter explains")
    cells = graph(Id.correlation, "rank correlation of parameters and results")
    pictures = [
        panel("Parallel coordinates", [lines, html.Div(id=Id.parallel_note)]),
        panel("What the result depends on", [bars, html.Div(id=Id.importance_note), cells]),
    ]
    return html.Div(
        [
            head,
            *([] if has_runs else [html.Section(_no_runs(), className="panel")]),
            html.Div([panel("Runs", table, _controls(address)), *pictures], style={} if has_runs else HIDDEN),
            control_keys(Id.keys, CONTROLS),
            dcc.Store(id=Id.order, data=ORDER.of(address)),
            dcc.Store(id=Id.seen, data=""),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
