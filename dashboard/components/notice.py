"""One line across the top of a page that something is wrong with the page itself."""

from dash import html


def notice(words: str) -> html.Div:
    """The line."""
    return html.Div([html.Span(className="icon icon-trouble", **{"aria-hidden": "true"}), words], className="notice")
