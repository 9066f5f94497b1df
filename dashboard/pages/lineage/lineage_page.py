"""Lineage: the runs of the store by their parameters and results, and which parameters make the difference."""

from typing import Final

import dash
import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ....insight import InsightError
from ...address import PageAddress
from ...components.form_controls import choose, line_input
from ...components.page_parts import empty_state, graph, panel
from ...components.shell import ShellIds
from ...components.tables import GridRow
from ...page_callbacks import control_keys, keep_address, keep_order
from ...page_registry import page
from ...queries.provenance_queries import ProvenanceCache, matching, results_of
from ...queries.reader import Reader
from ...queries.store_changes import annotate
from ...security import may_change
from ...theme import palette_of
from .lineage_figures import correlation_of, importance_of, parallel_of
from .lineage_table import (
    AXES,
    CONTROLS,
    FIELDS,
    HIDDEN,
    OF,
    ORDER,
    TABLE_INPUTS,
    WHERE,
    LineageIds,
    chosen_fields,
    connect_table,
    lineage_grid,
)


def connect_figures(app: dash.Dash, origins: ProvenanceCache) -> None:
    """Draw the runs of the table side by side, and what their result depends on."""

    @app.callback(
        Output(LineageIds.parallel, "figure"),
        Output(LineageIds.parallel, "style"),
        Output(LineageIds.parallel_note, "children"),
        Output(LineageIds.importance, "figure"),
        Output(LineageIds.importance, "style"),
        Output(LineageIds.importance_note, "children"),
        Output(LineageIds.correlation, "figure"),
        Output(LineageIds.correlation, "style"),
        *TABLE_INPUTS,
        Input(LineageIds.grid, "selectedRows"),
        State(ShellIds.scheme, "data"),
    )
    def draw(
        where: str | None,
        result: str | None,
        fields: list[str] | None,
        _: object,
        ticked: list[GridRow] | None,
        scheme: str | None,
    ) -> tuple[object, ...]:
        palette, everything = palette_of(scheme), origins.update().rows
        try:
            rows, shown = matching(everything, where or ""), chosen_fields(everything, fields)
        except InsightError:
            raise PreventUpdate from None  # the words about it stand above the table
        name = result if result in results_of(rows) else None
        return (
            *_shown(parallel_of(rows, shown, name, palette, chosen=ticked[0]["id"] if ticked else ""), _NOT_BESIDE),
            *_shown(importance_of(rows, name, palette), _NOT_ENOUGH),
            *_shown(correlation_of(rows, shown, name, palette))[:2],
        )


_NOT_BESIDE: Final = (
    "Nothing to compare",
    "This figure needs two or more runs that differ in a parameter and have the result.",
)
_NOT_ENOUGH: Final = (
    "Too few runs to tell what matters",
    "This figure needs six or more runs that have the result and differ in a shared parameter.",
)


def _shown(figure: go.Figure | None, otherwise: tuple[str, str] | None = None) -> tuple[object, object, object]:
    """Return figure, style and note; the note explains a missing figure."""
    if figure is None:
        return dash.no_update, HIDDEN, None if otherwise is None else empty_state(*otherwise)
    return figure, {"height": f"{figure.layout.height}px"}, None


def connect_remark(app: dash.Dash, reader: Reader) -> None:
    """Offer the remark on the ticked run, and save what was written."""

    @app.callback(
        Output(LineageIds.remark, "value"),
        Output(LineageIds.remark, "disabled"),
        Output(LineageIds.save, "disabled"),
        Input(LineageIds.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def offer(ticked: list[GridRow] | None) -> tuple[str, bool, bool]:
        is_closed = not ticked or not may_change()
        return (str(ticked[0].get("remark") or "") if ticked else ""), is_closed, is_closed

    @app.callback(
        Output(LineageIds.message, "children"),
        Output(LineageIds.tick, "n_intervals"),
        Input(LineageIds.save, "n_clicks"),
        State(LineageIds.remark, "value"),
        State(LineageIds.grid, "selectedRows"),
        prevent_initial_call=True,
    )
    def save(clicks: int | None, remark: str | None, ticked: list[GridRow] | None) -> tuple[str, object]:
        if not clicks or not ticked:
            raise PreventUpdate
        run = reader.find(str(ticked[0]["id"]))
        annotate(reader, run.id, name=run.name, tags=run.tags, remark=(remark or "").strip())
        return f"Saved the remark on {run.name}.", 0


def remark_bar() -> html.Div:
    """Build the bar in which a remark is written."""
    field = dmc.TextInput(
        id=LineageIds.remark,
        placeholder="tick a run to remark on it",
        size="xs",
        w=420,
        disabled=True,
        **{"aria-label": "Remark on the run that is ticked"},
    )
    save = dmc.Button("Save the remark", id=LineageIds.save, size="xs", disabled=True)
    return html.Div(
        [field, save, html.Span(id=LineageIds.message, role="status", className="muted")], className="bar remark-bar"
    )


_REFRESH_MS: Final = 2000
#: Characters of the conditions that an address carries.
_LONGEST: Final = 110


def connect(app: dash.Dash, reader: Reader) -> None:
    """Fill the table, draw what results depend on, and save remarks."""
    origins = ProvenanceCache(reader)
    connect_table(app, reader, origins)
    connect_figures(app, origins)
    connect_remark(app, reader)

    @app.callback(
        Output(LineageIds.seen, "data"),
        Input(LineageIds.tick, "n_intervals"),
        State(LineageIds.seen, "data"),
        prevent_initial_call=True,
    )
    def look(_: int, seen: str) -> str:
        now = origins.update().version
        if now == seen:
            raise PreventUpdate
        return now

    keep_order(app, LineageIds.grid, LineageIds.order)
    keep_address(app, LineageIds.keys, CONTROLS)


def _controls(here: PageAddress) -> list[Component]:
    example = "lr > 0.01, state = finished"
    label = f"Conditions that runs must meet, such as {example}"
    where = line_input(LineageIds.where, label, WHERE.of(here), 240, placeholder=example, longest=_LONGEST)
    chosen = [name for name in FIELDS.of(here).split(",") if name]
    fields = dmc.MultiSelect(
        id=LineageIds.fields,
        data=chosen,
        value=chosen,
        placeholder="parameters that differ",
        maxValues=AXES,
        searchable=True,
        limit=300,
        size="xs",
        maw=520,
        nothingFoundMessage="No match",
        **{"aria-label": "Parameters that are shown"},
    )
    return [where, fields, choose(LineageIds.result, "Result", [OF.of(here)], OF.of(here), 180)]


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
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the runs of the store side by side."""
    has_runs = bool(reader.runs())
    head = html.Header(
        html.Div(
            [html.H1("Lineage", className="page-title"), html.Span(id=LineageIds.counts, className="muted")],
            className="page-head-text",
        ),
        className="page-head",
    )
    table = [html.Div(id=LineageIds.note), dcc.Loading(lineage_grid(LineageIds.grid), delay_show=300), remark_bar()]
    lines = graph(LineageIds.parallel, "one line for every run through its parameters and its result")
    bars = graph(LineageIds.importance, "share of the result's variance that each parameter explains")
    cells = graph(LineageIds.correlation, "rank correlation of parameters and results")
    figures = [
        panel("Parallel coordinates", [lines, html.Div(id=LineageIds.parallel_note)]),
        panel("What the result depends on", [bars, html.Div(id=LineageIds.importance_note), cells]),
    ]
    return html.Div(
        [
            head,
            *([] if has_runs else [html.Section(_no_runs(), className="panel")]),
            html.Div([panel("Runs", table, _controls(address)), *figures], style={} if has_runs else HIDDEN),
            control_keys(LineageIds.keys, CONTROLS),
            dcc.Store(id=LineageIds.order, data=ORDER.of(address)),
            dcc.Store(id=LineageIds.seen, data=""),
            dcc.Interval(id=LineageIds.tick, interval=_REFRESH_MS),
        ]
    )
