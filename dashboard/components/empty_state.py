"""What a page shows when it has nothing to show: why, and what to do about it."""

from dash import html
from dash.development.base_component import Component

from .coded import coded


def empty_state(title: str, *advice: str | Component, icon: str = "empty") -> html.Div:
    """A quiet note in the middle of the page; each piece of advice is a paragraph of its own."""
    return html.Div(
        [
            html.Span(className=f"icon icon-{icon} empty-icon", **{"aria-hidden": "true"}),
            html.H2(title, className="empty-title"),
            *(html.P(coded(piece) if isinstance(piece, str) else piece, className="empty-advice") for piece in advice),
        ],
        className="empty",
        role="status",
    )
