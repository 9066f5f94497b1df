"""The loss around a model's weights: contours with the way of the training, and two cuts through the weights."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...insight.landscape import Surface
from ..theme import Palette, template
from ..words import number

Floats = NDArray[np.float64]
Height = Literal["log", "linear"]

#: Numbers on the colour bar.
_TICKS: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class Relief:
    """A surface as it is drawn.

    Args:
        z: `(rows, columns)` what gives the colour: losses or their logarithms; NaN where they are not finite.
        ticks: (height, label) of the colour bar.
        broken: (x, y, loss) of the points whose loss is not finite.
        is_log: Whether heights are logarithms; False as well where a loss is zero or less.
    """

    z: Floats
    ticks: tuple[tuple[float, str], ...]
    broken: tuple[tuple[float, float, float], ...]
    is_log: bool


def relief_of(surface: Surface, height: Height) -> Relief:
    """The heights of a surface, logarithmic where that is asked for and can be."""
    losses = np.array(surface.losses, np.float64)
    finite = np.isfinite(losses)
    is_log = height == "log" and bool(finite.any()) and bool((losses[finite] > 0.0).all())
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(finite, np.log10(losses) if is_log else losses, np.nan)
    rows, columns = np.nonzero(~finite)
    broken = tuple(
        (surface.x[column], surface.y[row], float(losses[row, column]))
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )
    places = np.linspace(np.nanmin(z), np.nanmax(z), _TICKS).tolist() if finite.any() else []
    ticks = tuple((place, number(10.0**place if is_log else place, 3)) for place in places)
    return Relief(z, ticks, broken, is_log)


def landscape_figure(surface: Surface, relief: Relief, palette: Palette) -> go.Figure:
    """Contours of the loss; the training's way as a line, the weights as a star, what is not finite as crosses."""
    figure = go.Figure(layout={"template": template(palette)})
    figure.add_contour(
        x=list(surface.x),
        y=list(surface.y),
        z=relief.z,
        customdata=np.array(surface.losses),
        colorscale=[list(stop) for stop in palette.sequential],
        ncontours=22,
        line={"width": 0.6, "color": palette.muted},
        colorbar={
            "title": {"text": "loss", "side": "top", "font": {"color": palette.muted, "size": 11}},
            "tickfont": {"color": palette.muted, "size": 11},
            "thickness": 12,
            "outlinewidth": 0,
            "tickvals": [place for place, _ in relief.ticks],
            "ticktext": [label for _, label in relief.ticks],
        },
        name="loss",
        hovertemplate="%{x:.4g}, %{y:.4g}<br><b>loss %{customdata:.6g}</b><extra></extra>",
    )
    _add_broken(figure, relief, palette)
    if surface.path:
        _add_path(figure, surface, palette)
    figure.add_scatter(
        x=[0.0],
        y=[0.0],
        mode="markers",
        name="the weights",
        marker={
            "symbol": "star",
            "size": 14,
            "color": palette.lines[1],
            "line": {"width": 1, "color": palette.surface},
        },
        hovertemplate=f"the weights<br><b>loss {surface.center_loss:.6g}</b><extra></extra>",
    )
    figure.update_layout(
        showlegend=True,
        margin={"t": 40},
        xaxis={"title": _axis("first", surface.explained[0]), "showgrid": False},
        yaxis={"title": _axis("second", surface.explained[1]), "showgrid": False},
    )
    return figure


def _add_broken(figure: go.Figure, relief: Relief, palette: Palette) -> None:
    if relief.broken:
        figure.add_scatter(
            x=[x for x, _, _ in relief.broken],
            y=[y for _, y, _ in relief.broken],
            text=[number(loss) for _, _, loss in relief.broken],
            mode="markers",
            name="not finite",
            marker={"symbol": "x", "size": 7, "color": palette.non_finite},
            hovertemplate="%{x:.4g}, %{y:.4g}<br><b>loss %{text}</b><extra></extra>",
        )


def _add_path(figure: go.Figure, surface: Surface, palette: Palette) -> None:
    around = {"width": 4.5, "color": palette.surface}
    xs, ys = [point.x for point in surface.path], [point.y for point in surface.path]
    figure.add_scatter(x=xs, y=ys, mode="lines", line=around, hoverinfo="skip", showlegend=False)
    figure.add_scatter(
        x=xs,
        y=ys,
        customdata=[point.step for point in surface.path],
        mode="lines+markers",
        name="the training",
        line={"width": 2, "color": palette.lines[1]},
        marker={"size": 5},
        hovertemplate="step %{customdata:,}<extra></extra>",
    )
    first = surface.path[0]
    figure.add_annotation(
        x=first.x, y=first.y, text=f"step {first.step:,}", showarrow=False, yshift=14, bgcolor=palette.surface
    )


def _axis(which: str, share: float) -> str:
    return f"{which} direction" + (f", {share:.0%} of the way" if np.isfinite(share) else "")


def cuts_figure(surface: Surface, palette: Palette, *, is_log: bool) -> go.Figure:
    """The loss along each direction through the grid's point nearest to the weights; crosses where it is not finite."""
    losses = np.array(surface.losses, np.float64)
    row, column = int(np.argmin(np.abs(surface.y))), int(np.argmin(np.abs(surface.x)))
    cuts = (
        ("first direction", surface.x, losses[row], "solid", palette.lines[0]),
        ("second direction", surface.y, losses[:, column], "dash", palette.lines[1]),
    )
    figure = go.Figure(layout={"template": template(palette)})
    for name, places, values, dash, color in cuts:
        is_there = np.isfinite(values)
        figure.add_scatter(
            x=list(places),
            y=[value if there else None for value, there in zip(values.tolist(), is_there.tolist(), strict=True)],
            name=name,
            mode="lines+markers",
            marker={"size": 4},
            line={"width": 1.8, "dash": dash, "color": color},
            hovertemplate="%{x:.4g}<br><b>loss %{y:.6g}</b><extra></extra>",
        )
        lost = [place for place, there in zip(places, is_there.tolist(), strict=True) if not there]
        if lost:
            figure.add_scatter(
                x=lost,
                y=[0.97] * len(lost),
                yaxis="y2",
                mode="markers",
                name=f"{name}, not finite",
                marker={"symbol": "x", "size": 7, "color": palette.non_finite},
                hovertemplate="%{x:.4g}: not finite<extra></extra>",
            )
    figure.add_vline(x=0, line={"width": 1, "dash": "dot", "color": palette.muted})
    figure.update_layout(
        margin={"t": 36},
        xaxis={"title": "distance from the weights", "showgrid": False},
        yaxis={"title": "loss", "type": "log" if is_log else "linear"},
        yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    )
    return figure
