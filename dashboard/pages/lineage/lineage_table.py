"""The table of runs by their parameters and results, with the page's ids and address keys."""

from collections.abc import Collection, Sequence
from typing import Final

import dash
import dash_ag_grid
from dash import Input, Output, State

from ....insight import InsightError
from ....insight.lineage import RESULT_WORDS, Provenance, differing_settings, known_fields, resolve
from ...address import PageAddress, QueryKey
from ...components.form_controls import with_chosen
from ...components.page_parts import notice
from ...components.tables import GRID_THEME, SHORT_NUMBER, GridRow, grid_value
from ...formatting import count, prose
from ...queries.provenance_queries import (
    MOST,
    RESULT,
    KnownRuns,
    ProvenanceCache,
    is_numeric,
    matching,
    results_of,
    short_name,
)
from ...queries.reader import Reader

#: Axes of the parallel coordinates that a screen has room for; our choice.
AXES: Final = 8
HIDDEN: Final = {"display": "none"}
WHERE = QueryKey("where")
OF = QueryKey("result", "loss")
FIELDS = QueryKey("fields")
ORDER = QueryKey("order", pattern=r"[A-Za-z0-9_./:@+-]{1,80}\.(asc|desc)", example="tag.lr.asc")


class LineageIds:
    """Ids of the components of this page."""

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
    message: Final = "lineage-said"
    parallel: Final = "lineage-parallel"
    parallel_note: Final = "lineage-parallel-note"
    importance: Final = "lineage-importance"
    importance_note: Final = "lineage-importance-note"
    correlation: Final = "lineage-correlation"


CONTROLS: Final = (
    (LineageIds.where, "value", WHERE),
    (LineageIds.result, "value", OF),
    (LineageIds.fields, "value", FIELDS),
    (LineageIds.order, "data", ORDER),
)
TABLE_INPUTS: Final = (
    Input(LineageIds.where, "value"),
    Input(LineageIds.result, "value"),
    Input(LineageIds.fields, "value"),
    Input(LineageIds.seen, "data"),
)


# A row of the grid is JSON: unlike values under fixed keys.

_FIXED: Final[list[GridRow]] = [
    {"field": "name", "headerName": "Run", "cellRenderer": "RunLink", "minWidth": 150, "flex": 1.4, "filter": True},
    {"field": "state", "headerName": "State", "cellRenderer": "Badge", "width": 108, "filter": True},
]


def lineage_columns(fields: Sequence[str], numeric: Collection[str] = (), order: str = "") -> list[GridRow]:
    """Build the columns of these fields, sorted as `field.asc` or `field.desc` says.

    Args:
        numeric: Fields that hold numbers alone.
    """
    field, _, direction = order.rpartition(".")
    columns = [*_FIXED, *(_column(name, is_number=name in numeric) for name in fields)]
    return [{**column, "sort": direction if column["field"] == field else None} for column in columns]


def _column(name: str, *, is_number: bool) -> GridRow:
    return {
        "field": name,
        "colId": name,
        "headerName": name.removeprefix("tag.").removeprefix("config."),
        "headerTooltip": f"{name}: {RESULT_WORDS}" if name.startswith("result.") else name,
        **({"valueFormatter": SHORT_NUMBER} if is_number else {}),
        "minWidth": 92,
        "flex": 1,
        "filter": True,
    }


def lineage_rows(rows: Sequence[Provenance], fields: Sequence[str]) -> list[GridRow]:
    """Build one row per run; numbers stay numbers to sort as such, non-finite ones get their JavaScript name."""
    return [
        {
            "id": row.run,
            "name": row.fields.get("name") or row.run,
            "state": row.fields.get("state"),
            "remark": row.fields.get("remark", ""),
            "href": PageAddress("run", run=row.run).href,
            **{name: grid_value(row.fields.get(name)) for name in fields},
        }
        for row in rows
    ]


def lineage_grid(name: str) -> dash_ag_grid.AgGrid:
    """Build the table, empty."""
    return dash_ag_grid.AgGrid(
        id=name,
        columnDefs=lineage_columns(()),
        rowData=[],
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "cellDataType": False},
        dashGridOptions={
            "rowHeight": 40,
            "headerHeight": 36,
            "animateRows": False,
            "enableCellTextSelection": True,
            "suppressFieldDotNotation": True,
            "rowSelection": {"mode": "singleRow", "checkboxes": True, "enableClickSelection": False},
            "selectionColumnDef": {"width": 42, "resizable": False, "sortable": False},
            "theme": GRID_THEME,
        },
        className="runs-grid",
        style={"height": "420px"},
    )


def chosen_fields(rows: Sequence[Provenance], chosen: Sequence[str] | None) -> list[str]:
    """Return the parameters to show: the chosen ones, else the first in which the runs differ.

    Raises:
        UnknownField: No run has one that was chosen.
    """
    known = known_fields(rows)
    if chosen and rows:
        return list(dict.fromkeys(resolve(name, known) for name in chosen))[:AXES]
    return list(differing_settings(rows)[:AXES])


def connect_table(app: dash.Dash, reader: Reader, origins: ProvenanceCache) -> None:
    """Fill the table, count its runs, and offer their parameters and results."""

    @app.callback(
        Output(LineageIds.grid, "rowData"),
        Output(LineageIds.grid, "columnDefs"),
        Output(LineageIds.counts, "children"),
        Output(LineageIds.note, "children"),
        Output(LineageIds.result, "data"),
        Output(LineageIds.fields, "data"),
        *TABLE_INPUTS,
        State(LineageIds.order, "data"),
    )
    def fill(
        where: str | None, result: str | None, fields: list[str] | None, _: object, order: str | None
    ) -> tuple[object, ...]:
        known = origins.update()
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
    """Return the fields to choose from, under names short enough for an address, and chosen ones that are unknown."""
    short = {short_name(name, known): name for name in known if not name.startswith((RESULT, "package."))}
    unknown = {name: name for name in chosen if name not in short}
    return [{"value": value, "label": label} for value, label in {**short, **unknown}.items()]


def _counted(shown: int, known: KnownRuns, there: int) -> str:
    words = f"{shown:,} of {count(len(known.rows), 'run')}"
    words += f", the newest of {there:,}" if there > MOST else ""
    return words + (f"; {known.left:,} more are being read" if known.left else "")
