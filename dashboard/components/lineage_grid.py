"""The table of runs by their parameters and results."""

from collections.abc import Collection, Sequence
from math import isfinite, isnan
from typing import Any, Final

import dash_ag_grid

from ...insight.lineage import RESULT_WORDS, Provenance
from ...storage import Json
from ..address import Address
from .grid_theme import GRID_THEME

# A row of the grid is JSON: unlike values under fixed keys.
Row = dict[str, Any]

_SHORT: Final = {"function": "params.value === null ? '' : d3.format('.5~g')(params.value)"}
_FIXED: Final[list[Row]] = [
    {"field": "name", "headerName": "Run", "cellRenderer": "RunLink", "minWidth": 150, "flex": 1.4, "filter": True},
    {"field": "state", "headerName": "State", "cellRenderer": "Badge", "width": 108, "filter": True},
]


def lineage_columns(fields: Sequence[str], numeric: Collection[str] = (), order: str = "") -> list[Row]:
    """The columns of these fields, sorted as `field.asc` or `field.desc` says.

    Args:
        numeric: Fields that hold numbers alone.
    """
    field, _, direction = order.rpartition(".")
    columns = [*_FIXED, *(_column(name, is_number=name in numeric) for name in fields)]
    return [{**one, "sort": direction if one["field"] == field else None} for one in columns]


def _column(name: str, *, is_number: bool) -> Row:
    return {
        "field": name,
        "colId": name,
        "headerName": name.removeprefix("tag.").removeprefix("config."),
        "headerTooltip": f"{name}: {RESULT_WORDS}" if name.startswith("result.") else name,
        **({"valueFormatter": _SHORT} if is_number else {}),
        "minWidth": 92,
        "flex": 1,
        "filter": True,
    }


def lineage_rows(rows: Sequence[Provenance], fields: Sequence[str]) -> list[Row]:
    """One row a run; numbers as numbers, so that they sort as such, what is not finite by its JavaScript name."""
    return [
        {
            "id": row.run,
            "name": row.fields.get("name") or row.run,
            "state": row.fields.get("state"),
            "remark": row.fields.get("remark", ""),
            "href": Address("run", run=row.run).href,
            **{name: _cell(row.fields.get(name)) for name in fields},
        }
        for row in rows
    ]


def _cell(value: Json) -> Json:
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, int | float | str) else str(value)


def lineage_grid(name: str) -> dash_ag_grid.AgGrid:
    """The table, empty."""
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
