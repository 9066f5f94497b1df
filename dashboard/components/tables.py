"""Short HTML tables, and the theme of the long AG Grid ones."""

from collections.abc import Collection, Sequence
from math import isfinite, isnan
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from ...storage import Json

#: A row or a column of AG Grid: JSON with unlike values under fixed keys.
GridRow = dict[str, Any]

#: AG Grid takes its theme as a piece of JavaScript that Dash looks up among the functions that it knows.
GRID_THEME: Final = {
    "function": "themeQuartz.withParams({backgroundColor: 'var(--surface)', foregroundColor: 'var(--text)', "
    "headerBackgroundColor: 'var(--surface)', headerTextColor: 'var(--muted)', borderColor: 'var(--line)', "
    "rowHoverColor: 'var(--hover)', accentColor: 'var(--accent)', fontFamily: 'inherit', fontSize: 13, "
    "cellHorizontalPadding: 11, headerFontSize: 12, headerFontWeight: 500, wrapperBorder: false, "
    "wrapperBorderRadius: 0, columnBorder: false, headerColumnBorder: false, "
    "headerColumnResizeHandleColor: 'transparent'})"
}


#: The format of a column that holds numbers alone: few digits, nothing for what is missing.
SHORT_NUMBER: Final = {"function": "params.value === null ? '' : d3.format('.5~g')(params.value)"}


def grid_value(value: Json) -> Json:
    """Return a value for a cell: numbers stay numbers to sort as such, non-finite ones get their JavaScript name."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, int | float | str) else str(value)


def listing(
    label: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Component | Sequence[Component]]],
    figures: Collection[str] = (),
) -> html.Div:
    """Build the table, read out as `label`.

    Args:
        rows: As many cells each as there are columns.
        figures: Columns that hold numbers.
    """
    kinds = ["figure" if name in figures else "" for name in columns]
    head = html.Tr([html.Th(name, className=kind, scope="col") for name, kind in zip(columns, kinds, strict=True)])
    body = [html.Tr([html.Td(cell, className=kind) for cell, kind in zip(row, kinds, strict=True)]) for row in rows]
    table = html.Table([html.Thead(head), html.Tbody(body)], className="table")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": label})


def rows_table(
    head: Sequence[str], rows: Sequence[Sequence[str | Component]], label: str, *, words: int = 1
) -> html.Div:
    """Build a table whose first `words` columns are words and all others numbers."""
    align = ["" if at < words else "figure" for at in range(len(head))]
    lines = [html.Tr([html.Td(cell, className=how) for cell, how in zip(row, align, strict=True)]) for row in rows]
    top = html.Tr([html.Th(name, className=how) for name, how in zip(head, align, strict=True)])
    table = html.Table([html.Thead(top), html.Tbody(lines)], className="table")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": label})
