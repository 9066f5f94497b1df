"""The tables about a run: scalars, configuration, packages, git, machine and events, and all of it as one file."""

import re
import time
from typing import Final
from urllib.parse import urlencode

import dash
import dash_ag_grid
import dash_mantine_components as dmc
import flask
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...storage import Run, RunNotFound, display_site
from ..address import PageAddress, QueryKey
from ..components.form_controls import switch
from ..components.page_parts import empty_state, panel
from ..components.run_header import run_header, run_picker, run_status
from ..components.tables import GRID_THEME
from ..page_callbacks import control_keys, follow_run, keep_address
from ..page_registry import page
from ..queries.environment_queries import archive, events, part_of, scalar_rows
from ..queries.reader import Reader

Row = dict[str, object]

_WORDS: Final = ("scalars", "events", "configuration", "machine", "packages", "git", "devices", "variables")
PART, FILTER = QueryKey("part", "scalars", _WORDS), QueryKey("filter")
_ROUTE: Final = "/archive"
_NUMBERS: Final = ("rank", "points", "first step", "last step", "last", "smallest", "largest", "not finite", "step")
_NOTHING: Final = {
    "events": "Skipped steps, dumped tensors and faults of the monitor appear here.",
    "scalars": "They appear with the first step, or log them with `monitor.log(name=value)`.",
    "configuration": "This run started without a configuration of its own.",
}


class LogsIds:
    """Ids of the components of this page."""

    run: Final = "logs-run"
    keys: Final = "logs-keys"
    part: Final = "logs-part"
    filter: Final = "logs-filter"
    grid: Final = "logs-grid"
    note: Final = "logs-note"
    frame: Final = "logs-frame"


_CONTROLS: Final = ((LogsIds.part, "value", PART), (LogsIds.filter, "value", FILTER))


def rows_of(reader: Reader, run: Run, part: str) -> list[Row]:
    """Return the rows of one table; every row has the same columns."""
    if part == "scalars":
        return scalar_rows(reader, run)
    if part == "events":
        return [
            {
                "step": event.step,
                "rank": rank,
                "kind": event.kind,
                "site": display_site(event.site),
                "data": ", ".join(f"{name} {value}" for name, value in event.data.items()),
            }
            for rank, event in events(reader, run)
        ]
    return [{"name": name, "value": _text(value)} for name, value in part_of(run, part).items()]


def _text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def columns_of(rows: list[Row]) -> list[Row]:
    """Return the columns of the rows, numbers at the right, the last one as wide as there is room."""
    names = list(rows[0]) if rows else []
    return [
        {
            "field": name,
            "headerName": name,
            "type": "rightAligned" if name in _NUMBERS else None,
            "flex": 3 if at == len(names) - 1 and name not in _NUMBERS else 1,
            "minWidth": 90 if name in _NUMBERS else 150,
            "tooltipField": name,
        }
        for at, name in enumerate(names)
    ]


def connect(app: dash.Dash, reader: Reader) -> None:
    """Fill the table, and serve everything as one file."""

    @app.callback(
        Output(LogsIds.grid, "rowData"),
        Output(LogsIds.grid, "columnDefs"),
        Output(LogsIds.frame, "style"),
        Output(LogsIds.note, "children"),
        Input(LogsIds.part, "value"),
        State(LogsIds.run, "value"),
    )
    def fill(part: str, reference: str) -> tuple[object, ...]:
        rows = rows_of(reader, reader.find(reference), part)
        note = None if rows else empty_state(f"No {part} recorded", _NOTHING.get(part, "This run did not record them."))
        return rows, columns_of(rows), {} if rows else {"display": "none"}, note

    app.clientside_callback(
        ClientsideFunction("mindscope", "quickFilter"),
        Output(LogsIds.grid, "dashGridOptions"),
        Input(LogsIds.filter, "value"),
        State(LogsIds.grid, "dashGridOptions"),
    )
    keep_address(app, LogsIds.keys, _CONTROLS)
    follow_run(app, LogsIds.run)
    _serve_archive(app.server, reader)


def _serve_archive(server: flask.Flask, reader: Reader) -> None:
    @server.get(_ROUTE)
    def export() -> flask.Response:
        try:
            run = reader.find(flask.request.args.get("run", ""))
        except RunNotFound as error:
            return flask.Response(f"{error}\n", status=404, mimetype="text/plain")
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", run.id)
        answer = flask.Response(archive(reader, run), mimetype="application/zip")
        answer.headers["Content-Disposition"] = f'attachment; filename="{name}.zip"'
        return answer


@page("logs", title="Logs", icon="logs", connect=connect, keys=(PART, FILTER))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the tables about one run."""
    run = reader.find(address.run)
    status = html.Div(run_status(run, time.time()), className="status")
    everything = html.A("Export everything", href=f"{_ROUTE}?{urlencode({'run': run.id})}", className="button")
    words = dmc.TextInput(
        id=LogsIds.filter,
        value=FILTER.of(address),
        placeholder="filter",
        debounce=250,
        size="xs",
        w=180,
        **{"aria-label": "Filter the rows"},
    )
    grid = dash_ag_grid.AgGrid(
        id=LogsIds.grid,
        columnDefs=[],
        rowData=[],
        defaultColDef={"sortable": True, "resizable": True, "cellDataType": False},
        dashGridOptions={
            "rowHeight": 32,
            "headerHeight": 34,
            "enableCellTextSelection": True,
            "animateRows": False,
            "theme": GRID_THEME,
        },
        className="runs-grid",
        style={"height": "calc(100vh - 260px)", "minHeight": "320px"},
    )
    body = [html.Div(dcc.Loading(grid, delay_show=400), id=LogsIds.frame), html.Div(id=LogsIds.note)]
    controls = [switch(LogsIds.part, "Table", PART.words, PART.of(address)), words]
    return html.Div(
        [
            run_header(run, status, run_picker(LogsIds.run, reader.runs(), run), [everything]),
            *([_error(run.error)] if run.error else []),
            panel("Logs and environment", body, controls),
            control_keys(LogsIds.keys, _CONTROLS),
        ]
    )


def _error(words: str) -> html.Section:
    return panel("How it ended", html.Pre(words, className="mono"))
