"""The operators of a mean step as a table."""

from collections.abc import Sequence
from typing import Any, Final

import dash_ag_grid
from dash import html

from ....insight.profile import Operator, Profile
from ...components import empty_state
from ...components.grid_theme import GRID_THEME
from ...words import count
from .ids import HIDDEN, Id

# A row of the grid is JSON: unlike values under fixed keys.
Row = dict[str, Any]
_MS: Final = {"function": "params.value === null ? '' : d3.format(',.3~f')(params.value)"}
_COLUMNS: Final[list[Row]] = [
    {"field": "name", "headerName": "Operator", "flex": 2, "minWidth": 180, "filter": True, "tooltipField": "name"},
    {"field": "phase", "headerName": "Phase", "width": 110, "filter": True},
    {"field": "calls", "headerName": "Calls a step", "width": 110, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "own", "headerName": "Own ms", "width": 110, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "whole", "headerName": "With callees ms", "width": 130, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "share", "headerName": "Share %", "width": 100, "type": "rightAligned", "valueFormatter": _MS},
    {"field": "kilobytes", "headerName": "Allocated kB", "width": 130, "type": "rightAligned", "valueFormatter": _MS},
]


def operator_rows(operators: Sequence[Operator]) -> list[Row]:
    """The operators of a mean step, the longest first."""
    return [
        {
            "name": one.name,
            "phase": one.phase,
            "calls": one.calls,
            "own": one.self_s * 1e3,
            "whole": one.seconds * 1e3,
            "share": one.share * 100,
            "kilobytes": one.size_bytes / 1e3,
        }
        for one in operators
    ]


def operators_of(found: Profile) -> tuple[object, object, object]:
    """Rows, style and note of the table."""
    if not found.operators:
        advice = "Look into the first steps with `subjects: {operator: {first: 3}}` in the configuration."
        return [], HIDDEN, empty_state("No step was looked at from inside", advice)
    words = f"{count(len(found.operators), 'operator')} of {count(len(found.profiled), 'step')}"
    height = f"{min(420, 60 + 32 * len(found.operators))}px"
    return operator_rows(found.operators), {"height": height}, html.P(words, className="muted")


def operators_grid() -> html.Div:
    """The table as it is laid out, hidden until it has rows."""
    grid = dash_ag_grid.AgGrid(
        id=Id.operators,
        columnDefs=_COLUMNS,
        rowData=[],
        defaultColDef={"sortable": True, "resizable": True, "cellDataType": False},
        dashGridOptions={"rowHeight": 32, "headerHeight": 34, "animateRows": False, "theme": GRID_THEME},
        className="runs-grid",
        style=HIDDEN,
    )
    return html.Div([grid, html.Div(id=Id.operators_note)])
