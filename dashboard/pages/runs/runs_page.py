"""All runs of the store: how each is doing and where to look first."""

import time
from typing import Final

import dash
import dash_ag_grid
import dash_mantine_components as dmc
import numpy as np
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ....storage import Run
from ...address import PageAddress, QueryKey
from ...components.page_parts import empty_state
from ...components.tables import GRID_THEME, GridRow
from ...formatting import count, sentence
from ...headline import headline_of
from ...page_callbacks import control_keys, keep_address, keep_order
from ...page_registry import page
from ...queries.reader import Reader
from ...security import may_change
from .run_actions import RunsIds, connect_actions, run_actions, spell_tags

_SPARK_POINTS: Final = 48


def spark(reader: Reader, run: Run) -> tuple[float | None, ...]:
    """Return the loss of the first rank in a few points; None where it was not finite."""
    values = reader.scalar(run.id, "loss", limit=_SPARK_POINTS).values
    return tuple(value if np.isfinite(value) else None for value in values.tolist())


_REFRESH_MS = 2000
_WITHOUT_SCROLLING = 14
FILTER = QueryKey("filter")
ORDER = QueryKey("order", pattern=r"[a-z_]{1,20}\.(asc|desc)", example="first_bad.asc")
_CONTROLS = ((RunsIds.search, "value", FILTER), (RunsIds.order, "data", ORDER))


_COLUMNS: list[GridRow] = [
    {"field": "name", "headerName": "Run", "cellRenderer": "RunLink", "minWidth": 160, "flex": 2, "filter": True},
    {"field": "state", "headerName": "State", "cellRenderer": "Badge", "width": 120, "filter": True},
    {
        "field": "worst",
        "headerName": "First anomaly",
        "cellRenderer": "Worst",
        "minWidth": 188,
        "flex": 1,
        "filter": True,
    },
    {"field": "first_bad", "headerName": "Since step", "width": 98, "type": "rightAligned"},
    {"field": "spark", "headerName": "Loss", "cellRenderer": "Spark", "width": 142, "sortable": False},
    {"field": "step", "headerName": "Last step", "width": 86, "type": "rightAligned"},
    {"field": "kind", "headerName": "Kind", "width": 92, "filter": True},
    {"field": "tags", "headerName": "Tags", "cellRenderer": "Tags", "minWidth": 112, "flex": 2, "filter": True},
    {"field": "remark", "headerName": "Remark", "hide": True, "filter": True},
    {"field": "age", "headerName": "Updated", "cellRenderer": "Age", "width": 92},
]

_GRID_OPTIONS = {
    "rowHeight": 44,
    "headerHeight": 38,
    "suppressCellFocus": False,
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


def row_of(reader: Reader, run: Run, now: float) -> GridRow:
    """Return the row of the table for one run."""
    first = headline_of(reader, run).first
    return {
        "id": run.id,
        "name": run.name or run.id,
        "href": _address(run).href,
        "state": run.state_words,
        "severity": first.severity if first else "",
        "worst": sentence(first.cause) if first else "",
        "first_bad": first.first_step if first else None,
        "spark": list(spark(reader, run)),
        "step": run.last_step if run.last_step >= 0 else None,
        "kind": run.kind,
        "tags": "  ".join(f"{key} {value}" for key, value in run.tags.items()),
        "remark": run.remark,
        "tag_line": spell_tags(run.tags),
        "age": round(now - run.updated_at),
    }


def _address(run: Run) -> PageAddress:
    if run.kind == "evaluation":
        return PageAddress("robustness", run=run.parent or run.id)
    return PageAddress("run", run=run.id)


def _counts(runs: tuple[Run, ...]) -> str:
    running = sum(run.state == "running" for run in runs)
    bad = sum(run.worst == "error" for run in runs)
    parts = [count(len(runs), "run"), f"{running} running" if running else "", f"{bad} with errors" if bad else ""]
    return " · ".join(part for part in parts if part)


def connect(app: dash.Dash, reader: Reader) -> None:
    """Keep the table fresh; the browser filters it."""

    @app.callback(
        Output(RunsIds.grid, "rowData"),
        Output(RunsIds.counts, "children"),
        Input(RunsIds.tick, "n_intervals"),
        State(RunsIds.grid, "rowData"),
        prevent_initial_call=True,
    )
    def refresh(_: int, shown: list[GridRow] | None) -> tuple[object, str]:
        runs = reader.runs()
        now = time.time()
        rows = [row_of(reader, run, now) for run in runs]
        return (dash.no_update if _are_same(rows, shown) else rows), _counts(runs)

    keep_address(app, RunsIds.keys, _CONTROLS)
    connect_actions(app, reader)
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


@page("", title="Runs", icon="runs", connect=connect, needs_run=False, keys=(FILTER, ORDER))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the table of runs."""
    runs = reader.runs()
    head = html.Header(
        [
            html.Div(
                [
                    html.H1("Runs", className="page-title"),
                    html.Span(_counts(runs), id=RunsIds.counts, className="muted"),
                ],
                className="page-head-text",
            ),
            html.Div(
                dmc.TextInput(
                    id=RunsIds.search,
                    value=FILTER.of(address),
                    placeholder="Filter runs",
                    size="xs",
                    w=220,
                    debounce=150,
                    **{"aria-label": "Filter runs"},
                ),
                className="page-head-controls",
            ),
        ],
        className="page-head",
    )
    now = time.time()
    grid = dash_ag_grid.AgGrid(
        id=RunsIds.grid,
        columnDefs=_ordered(ORDER.of(address)),
        rowData=[row_of(reader, run, now) for run in runs],
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "cellDataType": False},
        dashGridOptions={
            **_GRID_OPTIONS,
            "domLayout": "autoHeight" if len(runs) <= _WITHOUT_SCROLLING else "normal",
            "quickFilterText": FILTER.of(address),
        },
        className="runs-grid",
        style={} if len(runs) <= _WITHOUT_SCROLLING else {"height": "calc(100vh - 300px)", "minHeight": "320px"},
    )
    body = html.Div(grid, className="grid-frame", style={} if runs else {"display": "none"})
    parts: list[Component] = [head, html.Section(body, className="panel flush")]
    if not runs:
        parts.append(html.Section(_no_runs(), className="panel"))
    parts += [
        run_actions(may_change=may_change()),
        control_keys(RunsIds.keys, _CONTROLS),
        dcc.Store(id=RunsIds.order, data=ORDER.of(address)),
        dcc.Interval(id=RunsIds.tick, interval=_REFRESH_MS),
    ]
    return html.Div(parts)


def _ordered(order: str) -> list[GridRow]:
    """Return the columns, sorted as the address says."""
    field, _, direction = order.partition(".")
    return [{**column, "sort": direction} if column["field"] == field else column for column in _COLUMNS]


def _no_runs() -> html.Div:
    return empty_state(
        "No runs yet",
        "Watch a training and it appears here live:",
        html.Code('monitor = ms.watch(model, optimizer, store="runs/")'),
        "or type `mindscope demo` for one with everything in it.",
    )
