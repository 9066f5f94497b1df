"""Lineage: the runs of the store by their parameters and results, and which parameters make the difference."""

from collections.abc import Sequence
from typing import Any, Final

import dash
import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ...insight import InsightError
from ...insight.lineage import Provenance, differing_settings, known_fields, resolve
from ..address import Address, Key
from ..components import empty_state, graph, notice, panel
from ..components.choices import choose, line_input, with_chosen
from ..components.lineage_grid import lineage_columns, lineage_grid, lineage_rows
from ..controls import control_keys, keep_address, keep_order
from ..data import Reader, annotate
from ..data.lineages import MOST, RESULT, Known, Origins, is_numeric, matching, results_of, short_name
from ..ids import Shell
from ..lineage_pictures import correlation_of, importance_of, parallel_of
from ..page import page
from ..security import may_change
from ..theme import palette_of
from ..words import count, prose

_REFRESH_MS: Final = 2000
#: Axes of the parallel coordinates that a screen has room for; our choice.
_AXES: Final = 8
#: Characters of the conditions that an address carries.
_LONGEST: Final = 110
_HIDDEN: Final = {"display": "none"}
WHERE = Key("where")
OF = Key("result", "loss")
FIELDS = Key("fields")
ORDER = Key("order", pattern=r"[A-Za-z0-9_./:@+-]{1,80}\.(asc|desc)", example="tag.lr.asc")

# A row of the grid is JSON: unlike values under fixed keys.
Row = dict[str, Any]


class Id:
    """What stands on this page."""

    keys: Final = "lineage-keys"
    tick: Final = "lineage-tick"
    seen: Final = "lineage-seen"
    where: Final = "lineage-where"
    result: Final = "lineage-result"
    fields: Final = "lineage-fields"
    order: Final = "lineage-order"
    counts: Final = "lineage-counts"
    note: Final = "lineage-note"
    grid: Final = "lineage-grid"
    remark: Final = "lineage-remark"
    save: Final = "lineage-save"
    said: Final = "lineage-said"
    parallel: Final = "lineage-parallel"
    parallel_note: Final = "lineage-parallel-note"
    importance: Final = "lineage-importance"
    importance_note: Final = "lineage-importance-note"
    correlation: Final = "lineage-correlation"


_CONTROLS: Final = (
    (Id.where, "value", WHERE),
    (Id.result, "value", OF),
    (Id.fields, "value", FIELDS),
    (Id.order, "data", ORDER),
)


def chosen_fields(rows: Sequence[Provenance], chosen: Sequence[str] | None) -> list[str]:
    """The parameters that are shown: those that were chosen, else the first in which the runs differ.

    Raises:
        UnknownField: No run has one that was chosen.
    """
    known = known_fields(rows)
    if chosen and rows:
        return list(dict.fromkeys(resolve(name, known) for name in chosen))[:_AXES]
    return list(differing_settings(rows)[:_AXES])


def connect(app: dash.Dash, reader: Reader) -> None:
    """Fills the table and draws what results depend on; keeps remarks."""
    origins = Origins(reader)
    _connect_table(app, reader, origins)
    _connect_pictures(app, origins)
    _connect_remark(app, reader)

    @app.callback(
        Output(Id.seen, "data"), Input(Id.tick, "n_intervals"), State(Id.seen, "data"), prevent_initial_call=True
    )
    def look(_: int, seen: str) -> str:
        now = origins.look().version
        if now == seen:
            raise PreventUpdate
        return now

    keep_order(app, Id.grid, Id.order)
    keep_address(app, Id.keys, _CONTROLS)


_ASKED: Final = (Input(Id.where, "value"), Input(Id.result, "value"), Input(Id.fields, "value"), Input(Id.seen, "data"))


def _connect_table(app: dash.Dash, reader: Reader, origins: Origins) -> None:
    @app.callback(
        Output(Id.grid, "rowData"),
        Output(Id.grid, "columnDefs"),
        Output(Id.counts, "children"),
        Output(Id.note, "children"),
        Output(Id.result, "data"),
        Output(Id.fields, "data"),
        *_ASKED,
        State(Id.order, "data"),
    )
    def fill(
        where: str | None, result: str | None, fields: list[str] | None, _: object, order: str | None
    ) -> tuple[object, ...]:
        known = origins.look()
        everything = known.rows
        names = list(results_of(everything))
        try:
            rows, note = matching(everything, where or ""), None
            shown = chosen_fields(everything, fields)
        except InsightError as error:
            rows, note, shown = (), notice(prose(str(error))), []
        result_fields = [f"{RESULT}{result}"] if result in names else []
        numeric = [name for name in (*shown, *result_fields) if is_numeric(rows, name)]
        columns = lineage_columns([*shown, *result_fields], numeric, order or "")
        return (
            lineage_rows(rows, [*shown, *result_fields]),
            columns,
            _counted(len(rows), known, len(reader.runs())),
            note,
            with_chosen(names, result or ""),
            _offered(known_fields(everything), fields or []),
        )


def _offered(known: Sequence[str], chosen: Sequence[str]) -> list[dict[str, str]]:
    """The fields that can be chosen, by names so short that an address holds several, and what was chosen unknown."""
    short = {short_name(name, known): name for name in known if not name.startswith((RESULT, "package."))}
    unknown = {name: name for name in chosen if name not in short}
    return [{"value": value, "label": label} for value, label in {**short, **unknown}.items()]


def _counted(shown: int, known: Known, there: int) -> str:
    words = f"{shown:,} of {count(len(known.rows), 'run')}"
    words += f", the newest of {there:,}" if there > MOST else ""
    return words + (f"; {known.left:,} more are being read" if known.left else "")


def _connect_pictures(app: dash.Dash, origins: Origins) -> None:
    @app.callback(
        Output(Id.parallel, "figure"),
        Output(Id.parallel, "style"),
        Output(Id.parallel_note, "children"),
        Output(Id.importance, "figure"),
        Output(Id.importance, "style"),
        Output(Id.importance_note, "children"),
        Output(Id.correlation, "figure"),
        Output(Id.correlation, "style"),
        *_ASKED,
        Input(Id.grid, "selectedRows"),
        State(Shell.scheme, "data"),
    )
    def draw(
        where: str | None,
        result: str | None,
        fields: list[str] | None,
        _: object,
        ticked: list[Row] | None,
        scheme: str | None,
    ) -> tuple[object, ...]:
        palette, everything = palette_of(scheme), origins.look().rows
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
    "Nothing to lay side by side",
    "Two runs or more that differ in a parameter, and a result that they have, make a picture.",
)
_NOT_ENOUGH: Final = (
    "Too few runs to tell what matters",
    "Six runs or more that have the result, and differ in a parameter that several share, say what matters.",
)


def _shown(figure: go.Figure | None, otherwise: tuple[str, str] | None = None) -> tuple[object, object, object]:
    """Figure, style and note of a picture; where there is none, the words for it."""
    if figure is None:
        return dash.no_update, _HIDDEN, None if otherwise is None else empty_state(*otherwise)
    return figure, {"height": f"{figure.layout.height}px"}, None


def _connect_remark(app: dash.Dash, reader: Reader) -> None:
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
        maxValues=_AXES,
        searchable=True,
        limit=300,
        size="xs",
        maw=520,
        nothingFoundMessage="Nothing of that name",
        **{"aria-label": "Parameters that are shown"},
    )
    return [where, fields, choose(Id.result, "Result", [OF.of(here)], OF.of(here), 180)]


def _remark_bar() -> html.Div:
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
    table = [html.Div(id=Id.note), dcc.Loading(lineage_grid(Id.grid), delay_show=300), _remark_bar()]
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
            html.Div([panel("Runs", table, _controls(address)), *pictures], style={} if has_runs else _HIDDEN),
            control_keys(Id.keys, _CONTROLS),
            dcc.Store(id=Id.order, data=ORDER.of(address)),
            dcc.Store(id=Id.seen, data=""),
            dcc.Interval(id=Id.tick, interval=_REFRESH_MS),
        ]
    )
