"""A titled box with its controls in the head."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component


def panel(
    title: str | Component, body: Component | Sequence[Component], controls: Sequence[Component] = ()
) -> html.Section:
    """The box; controls stand at the right of the title and wrap below it where there is little room."""
    head = html.Div(
        [html.H2(title, className="panel-title"), html.Div(list(controls), className="panel-controls")],
        className="panel-head",
    )
    return html.Section([head, html.Div(body, className="panel-body")], className="panel")
