"""A short table: names above columns, figures at the right, in a frame that scrolls sideways."""

from collections.abc import Collection, Sequence

from dash import html
from dash.development.base_component import Component


def listing(
    label: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Component | Sequence[Component]]],
    figures: Collection[str] = (),
) -> html.Div:
    """The table, read out as `label`.

    Args:
        rows: As many cells each as there are columns.
        figures: Columns that hold numbers.
    """
    kinds = ["figure" if name in figures else "" for name in columns]
    head = html.Tr([html.Th(name, className=kind, scope="col") for name, kind in zip(columns, kinds, strict=True)])
    body = [html.Tr([html.Td(cell, className=kind) for cell, kind in zip(row, kinds, strict=True)]) for row in rows]
    table = html.Table([html.Thead(head), html.Tbody(body)], className="table")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": label})
