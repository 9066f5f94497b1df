"""What the runs look like side by side, and what their results depend on."""

from typing import Final

import dash
import plotly.graph_objects as go
from dash import Input, Output, State
from dash.exceptions import PreventUpdate

from ....insight import InsightError
from ...components import empty_state
from ...data.lineages import Origins, matching, results_of
from ...ids import Shell
from ...pictures.lineage import correlation_of, importance_of, parallel_of
from ...theme import palette_of
from .ids import ASKED, HIDDEN, Id, Row
from .table import chosen_fields


def connect_pictures(app: dash.Dash, origins: Origins) -> None:
    """Draws the runs that are shown side by side, and what their result depends on."""

    @app.callback(
        Output(Id.parallel, "figure"),
        Output(Id.parallel, "style"),
        Output(Id.parallel_note, "children"),
        Output(Id.importance, "figure"),
        Output(Id.importance, "style"),
        Output(Id.importance_note, "children"),
        Output(Id.correlation, "figure"),
        Output(Id.correlation, "style"),
        *ASKED,
        Input(Id.grid, "selectedRows"),
        State(Shell.scheme, "data"),
    )
    def draw(
        where: str | None,
        result: str | None,
        fields: list[str] | None,
        _: object,
        ticked: list[Row] | None,
        scheme: str | None,
    ) -> tuple[object, ...]:
        palette, everything = palette_of(scheme), origins.look().rows
        try:
            rows, shown = matching(everything, where or ""), chosen_fields(everything, fields)
        except InsightError:
            raise PreventUpdate from None  # the words about it stand above the table
        name = result if result in results_of(rows) else None
        return (
            *_shown(parallel_of(rows, shown, name, palette, chosen=ticked[0]["id"] if ticked else ""), _NOT_BESIDE),
            *_shown(importance_of(rows, name, palette), _NOT_ENOUGH),
            *_shown(correlation_of(rows, shown, name, palette))[:2],
        )


_NOT_BESIDE: Final = (
    "Nothing to lay side by side",
    "Two runs or more that differ in a parameter, and a result that they have, make a picture.",
)
_NOT_ENOUGH: Final = (
    "Too few runs to tell what matters",
    "Six runs or more that have the result, and differ in a parameter that several share, say what matters.",
)


def _shown(figure: go.Figure | None, otherwise: tuple[str, str] | None = None) -> tuple[object, object, object]:
    """Figure, style and note of a picture; where there is none, the words for it."""
    if figure is None:
        return dash.no_update, HIDDEN, None if otherwise is None else empty_state(*otherwise)
    return figure, {"height": f"{figure.layout.height}px"}, None
