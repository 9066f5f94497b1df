"""Where a model looks: the input beside one map for every method, and what the score does as places are taken away."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from ...insight.saliency import Explanation
from ..theme import ColorScale, Palette, template
from ..words import sentence

Floats = NDArray[np.float64]

_A_ROW: Final = 3
_ROW_PIXELS: Final = 300
#: Places of a picture on each side that are drawn; larger ones show of every patch its largest value.
_SIDE: Final = 112
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def maps_height(maps: int) -> int:
    """Pixels that the input and so many maps need."""
    return _ROW_PIXELS * -(-(maps + 1) // _A_ROW)


def maps_figure(found: Sequence[Explanation], palette: Palette) -> go.Figure:
    """The input in grey, and the map of each method: what speaks for the score, and what speaks against it.

    Args:
        found: Explanations of one input, one or more.
    """
    titles = ["Input", *(sentence(one.method) for one in found)]
    rows = -(-len(titles) // _A_ROW)
    figure = make_subplots(
        rows=rows,
        cols=_A_ROW,
        subplot_titles=titles,
        horizontal_spacing=0.05,
        vertical_spacing=0.2 / rows if rows > 1 else 0.0,
    )
    figure.update_layout(template=template(palette), showlegend=False, margin={"t": 30, "b": 10, "l": 10, "r": 10})
    picture = _flat(found[0].x)
    grey: ColorScale = ((0.0, "#000000"), (1.0, "#ffffff"))
    _add_map(figure, 0, picture, grey, (float(np.nanmin(picture)), float(np.nanmax(picture))))
    for at, one in enumerate(found, start=1):
        field = _flat(one.importance)
        bound = float(np.nanmax(np.abs(field))) or 1.0
        _add_map(figure, at, field, palette.diverging, (-bound, bound))
        if one.region is not None:
            _add_region(figure, at, _flat(one.region.astype(np.float64)), palette)
    figure.update_annotations(font={"size": 12, "color": palette.muted})
    figure.update_xaxes(visible=False)
    for at in range(len(titles)):
        anchor = "x" if at == 0 else f"x{at + 1}"
        figure.update_yaxes(
            visible=False, autorange="reversed", scaleanchor=anchor, row=at // _A_ROW + 1, col=at % _A_ROW + 1
        )
    figure.update_layout(height=maps_height(len(found)))
    return figure


def _add_map(figure: go.Figure, at: int, field: Floats, colors: ColorScale, span: tuple[float, float]) -> None:
    heat = go.Heatmap(
        z=field.astype(np.float32),
        zmin=span[0],
        zmax=span[1],
        colorscale=[list(stop) for stop in colors],
        showscale=False,
        hovertemplate="%{x}, %{y}: <b>%{z:.4g}</b><extra></extra>",
    )
    figure.add_trace(heat, row=at // _A_ROW + 1, col=at % _A_ROW + 1)


def _add_region(figure: go.Figure, at: int, region: Floats, palette: Palette) -> None:
    """A line around what a person has marked."""
    line = go.Contour(
        z=region,
        contours={"start": 0.5, "end": 0.5, "coloring": "none"},
        line={"width": 2, "color": palette.non_finite},
        showscale=False,
        hoverinfo="skip",
    )
    figure.add_trace(line, row=at // _A_ROW + 1, col=at % _A_ROW + 1)


def _flat(field: Floats) -> Floats:
    """`(height, width)`: a vector as one row, channels as their mean, at most `_SIDE` places a side."""
    at: Floats = np.asarray(field, np.float64)
    at = at[None] if at.ndim == 1 else at
    at = at.reshape(-1, *at.shape[-2:]).mean(axis=0)
    for axis in (0, 1):
        size = at.shape[axis]
        if size > _SIDE:
            begins = np.arange(0, size, -(-size // _SIDE))
            low, high = np.minimum.reduceat(at, begins, axis=axis), np.maximum.reduceat(at, begins, axis=axis)
            at = np.where(np.abs(low) > np.abs(high), low, high)
    return at


def curves_figure(found: Sequence[Explanation], palette: Palette) -> go.Figure:
    """The score while the most important places are taken away (it should fall at once) or given (it should rise)."""
    figure = make_subplots(rows=1, cols=2, subplot_titles=["Taken away: lower is better", "Given: higher is better"])
    figure.update_layout(template=template(palette), margin={"t": 60}, legend={"y": 1.18})
    for at, one in enumerate(found):
        for column, curve in enumerate((one.deletion, one.insertion), start=1):
            line = go.Scatter(
                x=list(curve.shares),
                y=[value if np.isfinite(value) else None for value in curve.scores],
                name=sentence(one.method),
                legendgroup=one.method,
                showlegend=column == 1,
                mode="lines",
                line={
                    "width": 1.8,
                    "dash": _DASHES[at % len(_DASHES)],
                    "color": palette.lines[at % len(palette.lines)],
                },
                hovertemplate="%{x:.0%} of the places<br><b>score %{y:.4g}</b><extra>%{fullData.name}</extra>",
            )
            figure.add_trace(line, row=1, col=column)
    figure.update_annotations(font={"size": 12, "color": palette.muted})
    figure.update_xaxes(title="share of the places", tickformat=".0%", showgrid=False)
    figure.update_yaxes(title="score", col=1)
    return figure
