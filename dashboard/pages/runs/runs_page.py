"""All runs of the store: how each is doing and where to look first."""

import time
from collections.abc import Sequence
from typing import Final

import dash
import dash_ag_grid
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....insight import InsightError
from ....storage import Run
from ...address import PageAddress, QueryKey
from ...components.form_controls import AT_THE_RIGHT, line_input, with_chosen
from ...components.page_parts import empty_state, notice
from ...components.tables import GRID_THEME, SHORT_NUMBER, GridRow
from ...formatting import count, prose
from ...page_callbacks import control_keys, keep_address, keep_order
from ...page_registry import page
from ...queries.reader import Reader
from ...security import may_change
from .run_actions import RunsIds, connect_actions, run_actions
from .run_rows import USUAL_COLUMN, RunDetailsCache, RunTable, run_table

_REFRESH_MS: Final = 2000
#: How long an answer reads runs that are not known yet. The browser asks for the next one as soon as it has this one:
#: of two at a time it would drop the older. Should one be lost, it asks again after this many milliseconds.
_FILLING_S, _LOST_MS = 0.5, 10_000
_WITHOUT_SCROLLING = 14
_HIDDEN: Final = {"display": "none"}
#: Characters of the query that an address carries.
_LONGEST: Final = 110
FILTER, WHERE = QueryKey("filter"), QueryKey("where")
FIELDS = QueryKey("columns", USUAL_COLUMN)
ORDER = QueryKey("order", pattern=r"[A-Za-z0-9_./:@+-]{1,80}\.(asc|desc)", example="first_bad.asc")
_CONTROLS = (
    (RunsIds.search, "value", FILTER),
    (RunsIds.where, "value", WHERE),
    (RunsIds.fields, "value", FIELDS),
    (RunsIds.order, "data", ORDER),
)


_COLUMNS: list[GridRow] = [
    {"field": "name", "headerName": "Run", "cellRenderer": "RunLink", "minWidth": 130, "flex": 2, "filter": True},
    {"field": "state", "headerName": "State", "cellRenderer": "Badge", "width": 108, "filter": True},
    {
        "field": "worst",
        "headerName": "First anomaly",
        "cellRenderer": "Worst",
        "minWidth": 138,
        "flex": 1,
        "filter": True,
    },
    {"field": "first_bad", "headerName": "Since", "width": 68, "type": "rightAligned"},
    {"field": "spark", "headerName": "Loss curve", "cellRenderer": "Spark", "width": 140, "sortable": False},
    {"field": "step", "headerName": "Last step", "width": 78, "type": "rightAligned"},
    {"field": "elapsed", "headerName": "Elapsed", "cellRenderer": "Elapsed", "width": 80, "type": "rightAligned"},
    {"field": "kind", "headerName": "Kind", "width": 80, "filter": True},
    {"field": "tags", "headerName": "Tags", "cellRenderer": "Tags", "minWidth": 104, "flex": 2, "filter": True},
    {"field": "remark", "headerName": "Remark", "hide": True, "filter": True},
    {"field": "age", "headerName": "Updated", "cellRenderer": "Age", "width": 88},
]

_GRID_OPTIONS = {
    "rowHeight": 44,
    "headerHeight": 38,
    "suppressCellFocus": False,
    "suppressFieldDotNotation": True,
    "suppressColumnVirtualisation": True,
    "animateRows": False,
    "rowSelection": {
        "mode": "multiRow",
        "checkboxes": True,
        "headerCheckbox": False,
        "enableClickSelection": False,
    },
    "selectionColumnDef": {"width": 42, "resizable": False, "sortable": False},
    "enableCellTextSelection": True,
    "includeHiddenColumnsInQuickFilter": True,
    "theme": GRID_THEME,
}


def _counts(runs: tuple[Run, ...], table: RunTable) -> str:
    running = sum(run.state == "running" for run in runs)
    bad = sum(run.worst == "error" for run in runs)
    parts = [
        count(len(runs), "run"),
        f"{running} running" if running else "",
        f"{bad} with errors" if bad else "",
        f"{len(table.rows):,} shown" if len(table.rows) != len(runs) else "",
        f"{table.left:,} more are being read" if table.left else "",
    ]
    return " · ".join(part for part in parts if part)


def _details(reader: Reader) -> RunDetailsCache:
    """Return what is known of the runs of this store, for all visitors."""
    return reader.kept("details of runs", lambda _: RunDetailsCache(reader))


def _table(reader: Reader, where: str, fields: Sequence[str], *, for_s: float) -> tuple[RunTable, Component | None]:
    """Return the table and a note on what is wrong with the query."""
    runs, now = reader.runs(), time.time()
    try:
        table = run_table(_details(reader), runs, where, fields, now=now, for_s=for_s)
    except InsightError as error:
        table = run_table(_details(reader), runs, "", fields, now=now, for_s=for_s)
        return RunTable([], table.columns, table.fields), notice(prose(str(error)))
    return table, notice(prose(table.error)) if table.error else None


def connect(app: dash.Dash, reader: Reader) -> None:
    """Keep the table fresh; the server answers the query, the browser filters by words."""

    @app.callback(
        Output(RunsIds.grid, "rowData"),
        Output(RunsIds.grid, "columnDefs"),
        Output(RunsIds.fields, "data"),
        Output(RunsIds.counts, "children"),
        Output(RunsIds.note, "children"),
        Output(RunsIds.tick, "interval"),
        Output(RunsIds.filling, "data"),
        Output(RunsIds.body, "style"),
        Output(RunsIds.nothing, "style"),
        Input(RunsIds.tick, "n_intervals"),
        Input(RunsIds.where, "value"),
        Input(RunsIds.fields, "value"),
        State(RunsIds.grid, "rowData"),
        State(RunsIds.grid, "columnDefs"),
        State(RunsIds.order, "data"),
    )
    def refresh(
        _: int,
        where: str | None,
        fields: list[str] | None,
        shown: list[GridRow] | None,
        columns: list[GridRow] | None,
        order: str | None,
    ) -> tuple[object, ...]:
        table, note = _table(reader, where or "", fields or [], for_s=_FILLING_S)
        runs = reader.runs()
        now_shown = [column["field"] for column in columns or ()]
        wanted = columns_of(table.columns, order or "", _kinds(runs))
        return (
            dash.no_update if _are_same(table.rows, shown) else table.rows,
            dash.no_update if [column["field"] for column in wanted] == now_shown else wanted,
            with_chosen(table.fields, *(fields or ())),
            _counts(runs, table),
            note,
            _LOST_MS if table.left else _REFRESH_MS,
            time.time() if table.left else 0.0,
            {} if runs else _HIDDEN,
            _HIDDEN if runs else {},
        )

    keep_address(app, RunsIds.keys, _CONTROLS)
    connect_actions(app, reader)
    app.clientside_callback(
        ClientsideFunction("mindscope", "askOn"),
        Input(RunsIds.filling, "data"),
        State(RunsIds.tick, "id"),
    )
    keep_order(app, RunsIds.grid, RunsIds.order)
    app.clientside_callback(
        ClientsideFunction("mindscope", "quickFilter"),
        Output(RunsIds.grid, "dashGridOptions"),
        Input(RunsIds.search, "value"),
        State(RunsIds.grid, "dashGridOptions"),
        prevent_initial_call=True,
    )


def _are_same(rows: list[GridRow], shown: list[GridRow] | None) -> bool:
    """Return whether only the age has changed, by less than five seconds."""
    if shown is None or len(rows) != len(shown):
        return False
    still = all({**new, "age": 0} == {**old, "age": 0} for new, old in zip(rows, shown, strict=True))
    return still and all(abs(new["age"] - old["age"]) < 5 for new, old in zip(rows, shown, strict=True))


def _search_controls(address: PageAddress, table: RunTable) -> list[Component]:
    example = "loss < 2 and tags.lr > 1e-4"
    chosen = _fields_in(address)
    words = dmc.TextInput(
        id=RunsIds.search,
        value=FILTER.of(address),
        placeholder="Filter runs",
        size="xs",
        w=150,
        debounce=150,
        **{"aria-label": "Filter runs"},
    )
    fields = dmc.MultiSelect(
        id=RunsIds.fields,
        data=with_chosen(table.fields, *chosen),
        value=chosen,
        placeholder="" if chosen else "columns",
        searchable=True,
        limit=300,
        size="xs",
        miw=130,
        maw=420,
        comboboxProps=AT_THE_RIGHT,
        nothingFoundMessage="No match",
        **{"aria-label": "Metrics and tags that are columns"},
    )
    where = line_input(
        RunsIds.where,
        f"Query that runs must meet, such as {example}",
        WHERE.of(address),
        240,
        placeholder=example,
        longest=_LONGEST,
    )
    return [words, where, fields]


def _kinds(runs: Sequence[Run]) -> int:
    return len({run.kind for run in runs})


def _fields_in(address: PageAddress) -> list[str]:
    return [name for name in FIELDS.of(address).split(",") if name]


def _grid(address: PageAddress, table: RunTable, runs: Sequence[Run]) -> dash_ag_grid.AgGrid:
    is_short = len(runs) <= _WITHOUT_SCROLLING
    return dash_ag_grid.AgGrid(
        id=RunsIds.grid,
        columnDefs=columns_of(table.columns, ORDER.of(address), _kinds(runs)),
        rowData=table.rows,
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "cellDataType": False},
        dashGridOptions={
            **_GRID_OPTIONS,
            "domLayout": "autoHeight" if is_short else "normal",
            "quickFilterText": FILTER.of(address),
        },
        className="runs-grid",
        style={} if is_short else {"height": "calc(100vh - 300px)", "minHeight": "320px"},
    )


@page("", title="Runs", icon="runs", connect=connect, needs_run=False, keys=(FILTER, WHERE, FIELDS, ORDER))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the table of runs."""
    table, note = _table(reader, WHERE.of(address), _fields_in(address), for_s=0.0)
    runs = reader.runs()
    title = [
        html.H1("Runs", className="page-title"),
        html.Span(_counts(runs, table), id=RunsIds.counts, className="muted"),
    ]
    controls = html.Div(_search_controls(address, table), className="page-head-controls")
    body = html.Div(_grid(address, table, runs), className="grid-frame")
    return html.Div(
        [
            html.Header([html.Div(title, className="page-head-text"), controls], className="page-head"),
            html.Div(note, id=RunsIds.note, role="status"),
            html.Section(body, className="panel flush", id=RunsIds.body, style={} if runs else _HIDDEN),
            html.Section(_no_runs(), className="panel", id=RunsIds.nothing, style=_HIDDEN if runs else {}),
            run_actions(may_change=may_change()),
            control_keys(RunsIds.keys, _CONTROLS),
            dcc.Store(id=RunsIds.order, data=ORDER.of(address)),
            dcc.Store(id=RunsIds.filling, data=0.0),
            dcc.Interval(id=RunsIds.tick, interval=_LOST_MS if table.left else _REFRESH_MS),
        ]
    )


def columns_of(fields: Sequence[str], order: str, kinds: int = 2) -> list[GridRow]:
    """Return the columns, those of chosen fields beside the loss, sorted as the address says.

    Args:
        fields: Full names of scalars, tags and other fields.
        order: As `first_bad.asc`; empty leaves the newest first.
        kinds: How many kinds of runs there are; one needs no column.
    """
    at = 1 + next(place for place, column in enumerate(_COLUMNS) if column["field"] == "spark")
    columns = [*_COLUMNS[:at], *map(_field_column, fields), *_COLUMNS[at:]]
    columns = [column for column in columns if kinds > 1 or column["field"] != "kind"]
    field, _, direction = order.rpartition(".")
    return [{**column, "sort": direction} if column["field"] == field else column for column in columns]


def _field_column(name: str) -> GridRow:
    is_word = name in ("name", "state", "kind", "framework", "worst", "remark") or name.startswith("tag.")
    return {
        "field": f"field.{name}",
        "colId": f"field.{name}",
        "headerName": name.removeprefix("tag."),
        "headerTooltip": name if is_word else f"{name}: its last value",
        "width": 80,
        "type": "rightAligned",
        **({} if is_word else {"valueFormatter": SHORT_NUMBER}),
    }


def _no_runs() -> html.Div:
    return empty_state(
        "No runs yet",
        "Watch a training and it appears here live:",
        html.Code('monitor = ms.watch(model, optimizer, store="runs/")'),
        "or type `mindscope demo` for one with everything in it.",
    )
