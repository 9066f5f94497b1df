"""A plain table of few rows: words at the left, numbers at the right."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component


def rows_table(
    head: Sequence[str], rows: Sequence[Sequence[str | Component]], label: str, *, words: int = 1
) -> html.Div:
    """A table whose first `words` columns are words and all others numbers."""
    align = ["" if at < words else "figure" for at in range(len(head))]
    lines = [html.Tr([html.Td(cell, className=how) for cell, how in zip(row, align, strict=True)]) for row in rows]
    top = html.Tr([html.Th(name, className=how) for name, how in zip(head, align, strict=True)])
    table = html.Table([html.Thead(top), html.Tbody(lines)], className="table")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": label})
