"""Components of every page: badges, notes, panels, cards and the frame of a Plotly graph."""

import re
from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from ...storage import Severity, StateWords

_MARKS: Final = {
    "running": "●",
    "finished": "✓",
    "failed": "✕",
    "crashed": "✕",
    "interrupted": "■",
    "stopped": "■",
    "error": "◆",
    "warning": "▲",
    "info": "●",
}


def state_badge(state: StateWords) -> html.Span:
    """Build the badge of a run's state."""
    return _badge(state, state)


def severity_badge(severity: Severity) -> html.Span:
    """Build the badge of a finding's severity."""
    return _badge(severity, severity)


def _badge(kind: str, words: str) -> html.Span:
    mark = html.Span(_MARKS[kind], className="badge-mark", **{"aria-hidden": "true"})
    return html.Span([mark, words], className=f"badge badge-{kind}")


def coded(text: str) -> list[str | Component]:
    """Split the text; what stands between two backticks becomes code, a backtick without a partner stays."""
    pieces = re.split(r"`([^`]+)`", text)
    shown = [html.Code(piece, className="inline") if at % 2 else piece for at, piece in enumerate(pieces)]
    return [piece for piece in shown if piece]


def empty_state(title: str, *advice: str | Component, icon: str = "empty") -> html.Div:
    """Build a quiet note in the middle of the page; each piece of advice is a paragraph of its own."""
    return html.Div(
        [
            html.Span(className=f"icon icon-{icon} empty-icon", **{"aria-hidden": "true"}),
            html.H2(title, className="empty-title"),
            *(html.P(coded(piece) if isinstance(piece, str) else piece, className="empty-advice") for piece in advice),
        ],
        className="empty",
        role="status",
    )


def notice(words: str) -> html.Div:
    """Build a line about an error of the page itself."""
    return html.Div([html.Span(className="icon icon-trouble", **{"aria-hidden": "true"}), words], className="notice")


def panel(
    title: str | Component, body: Component | Sequence[Component], controls: Sequence[Component] = ()
) -> html.Section:
    """Build a titled box; controls stand at the right of the title and wrap below it where there is little room."""
    head = html.Div(
        [html.H2(title, className="panel-title"), html.Div(list(controls), className="panel-controls")],
        className="panel-head",
    )
    return html.Section([head, html.Div(body, className="panel-body")], className="panel")


def card(label: str, value: str | Component, note: str | Component, tone: str = "") -> html.Div:
    """Build a card: a value in large under its name, and its source in small."""
    parts = [
        html.Div(label, className="card-label"),
        html.Div(value, className="card-value"),
        html.Div(note, className="card-note"),
    ]
    return html.Div(parts, className=f"card card-{tone}" if tone else "card")


#: `showSendToCloud`: plotly.js would otherwise offer to upload the figure to a stranger's server.
CONFIG: Final = {
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "responsive": True,
    "doubleClick": "autosize",
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "svg"},
}


def graph(name: str, label: str, height: int | None = None, figure: object = None) -> html.Div:
    """Build the Plotly graph with that id, read out as `label`; without a height it takes the figure's own."""
    style = {"height": f"{height}px"} if height else {}
    drawing = dcc.Graph(id=name, figure=figure or BLANK, config=CONFIG, style=style)
    return html.Div(drawing, className="graph", role="figure", **{"aria-label": label})


_NO_AXES: Final = {"xaxis": {"visible": False}, "yaxis": {"visible": False}}
#: What stands in the place of a figure before it is drawn.
BLANK: Final = {"layout": {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", **_NO_AXES}}
