"""A Plotly graph with the settings that every one of ours has."""

from typing import Final

from dash import dcc, html

#: `showSendToCloud`: plotly.js would otherwise offer to upload the figure to a stranger's server.
CONFIG: Final = {
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "svg"},
}


def graph(name: str, label: str, height: int | None = None, figure: object = None) -> html.Div:
    """The graph with that id, read out as `label`; without a height it takes the figure's own."""
    blank = {"layout": {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", **_NO_AXES}}
    style = {"height": f"{height}px"} if height else {}
    drawing = dcc.Graph(id=name, figure=figure or blank, config=CONFIG, style=style)
    return html.Div(drawing, className="graph", role="figure", **{"aria-label": label})


_NO_AXES = {"xaxis": {"visible": False}, "yaxis": {"visible": False}}
