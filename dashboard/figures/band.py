"""The range of a tensor's values over the steps: from its smallest to its largest, its mean between."""

from dataclasses import dataclass

import plotly.graph_objects as go

from ..theme import Palette
from .drawing import Part, drawing, packed
from .held import Place, steps_of
from .points import Points


@dataclass(frozen=True, slots=True)
class Edge:
    """One of the three lines with the places of its points."""

    points: Points
    x: tuple[Place, ...]


def band_figure(low: Edge, high: Edge, mean: Edge | None, palette: Palette, *, title: str) -> go.Figure:
    """The band; where a value is not finite it has a gap."""
    color = palette.lines[0]
    traces = [
        _curve(low, "smallest", {"width": 0.8, "color": color}),
        {**_curve(high, "largest", {"width": 0.8, "color": color}), "fill": "tonexty", "fillcolor": faint(color)},
    ]
    if mean is not None:
        traces.append(_curve(mean, "mean", {"width": 1.8, "color": palette.lines[1]}))
    return drawing(
        traces,
        palette,
        showlegend=False,
        xaxis={"title": {"text": title}, "showgrid": False},
        yaxis={"exponentformat": "e"},
    )


def _curve(edge: Edge, name: str, line: Part) -> Part:
    carried, step = steps_of(edge.points, edge.x)
    return {
        "type": "scatter",
        "x": packed(edge.x),
        "y": packed(edge.points.y),
        **carried,
        "mode": "lines",
        "name": name,
        "line": line,
        "hovertemplate": f"{name}<br>step %{{{step}}}<br><b>%{{y:.6g}}</b><extra></extra>",
    }


def faint(color: str, share: float = 0.22) -> str:
    """The colour, spelled `#rrggbb`, so thin that what is behind it can be seen."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"
