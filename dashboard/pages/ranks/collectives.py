"""What every collective moved and how long it took, as a table."""

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from ...address import Address
from ...components import empty_state
from ...data.ranks import (
    Share,
)
from ...words import number
from .cards import size_words


def collectives_table(run: str, parts: Sequence[Share]) -> Component:
    """One row for every collective of every rank, with the way to that rank."""
    if not parts:
        return empty_state(
            "No communication recorded",
            "Collectives are recorded of processes that talk through torch.distributed. What DDP's own reducer sends "
            "is not a call that can be seen; `gradient/unreduced` beside `gradient` shows what it did.",
        )
    columns = ("Operation", "Group", "Rank", "Calls", "Bytes a step", "Seconds", "Waiting")
    rows = [
        html.Tr(
            [
                html.Td(part.site.partition("/")[0]),
                html.Td(part.site.partition("/")[2]),
                html.Td(
                    dcc.Link(f"{part.rank}", href=Address("ranks", run=run).having(rank=f"{part.rank}").href),
                    className="figure",
                ),
                html.Td(f"{part.calls}", className="figure"),
                html.Td(size_words(part.moved_bytes), className="figure"),
                html.Td(number(part.seconds), className="figure"),
                html.Td(number(part.wait_seconds), className="figure"),
            ]
        )
        for part in parts
    ]
    head = html.Tr([html.Th(name, className="figure" if at > 1 else "") for at, name in enumerate(columns)])
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="table")
    return html.Div(table, className="table-frame", tabIndex=0, role="region", **{"aria-label": "collectives"})
