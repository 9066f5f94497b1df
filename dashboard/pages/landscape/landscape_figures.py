"""The loss around a model's weights, and where the model looks: contours, cuts, maps and curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from ....insight.landscape import Surface
from ....insight.saliency import Explanation
from ...formatting import number, sentence
from ...theme import ColorScale, Palette, template

Floats = NDArray[np.float64]
Height = Literal["log", "linear"]

#: Numbers on the colour bar.
_TICKS: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceHeights:
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


def surface_heights(surface: Surface, height: Height) -> SurfaceHeights:
    """Return the heights of a surface, logarithmic where requested and possible."""
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
    ticks = tuple((height, number(10.0**height if is_log else height, 3)) for height in places)
    return SurfaceHeights(z, ticks, broken, is_log)


def landscape_figure(surface: Surface, relief: SurfaceHeights, palette: Palette) -> go.Figure:
    """Draw contours of the loss, the training's path, the weights as a star, and non-finite losses as crosses."""
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
            "tickvals": [height for height, _ in relief.ticks],
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


def _add_broken(figure: go.Figure, relief: SurfaceHeights, palette: Palette) -> None:
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
    return f"{which} direction" + (f", {share:.0%} of the path" if np.isfinite(share) else "")


def cuts_figure(surface: Surface, palette: Palette, *, is_log: bool) -> go.Figure:
    """Draw the loss along each direction through the grid point nearest to the weights; crosses where not finite."""
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
        lost = [position for position, there in zip(places, is_there.tolist(), strict=True) if not there]
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


_A_ROW: Final = 3
_ROW_PIXELS: Final = 300
#: Pixels of an image on each side that are drawn; larger ones show of every patch its largest value.
_SIDE: Final = 112
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def maps_height(maps: int) -> int:
    """Return the pixels that the input and so many maps need."""
    return _ROW_PIXELS * -(-(maps + 1) // _A_ROW)


def maps_figure(found: Sequence[Explanation], palette: Palette) -> go.Figure:
    """Draw the input in grey, and the map of each method: what raises the score, and what lowers it.

    Args:
        found: Explanations of one input, one or more.
    """
    titles = ["Input", *(sentence(explanation.method) for explanation in found)]
    rows = -(-len(titles) // _A_ROW)
    figure = make_subplots(
        rows=rows,
        cols=_A_ROW,
        subplot_titles=titles,
        horizontal_spacing=0.05,
        vertical_spacing=0.2 / rows if rows > 1 else 0.0,
    )
    figure.update_layout(template=template(palette), showlegend=False, margin={"t": 30, "b": 10, "l": 10, "r": 10})
    image = _flat(found[0].x)
    grey: ColorScale = ((0.0, "#000000"), (1.0, "#ffffff"))
    _add_map(figure, 0, image, grey, (float(np.nanmin(image)), float(np.nanmax(image))))
    for at, explanation in enumerate(found, start=1):
        field = _flat(explanation.importance)
        bound = float(np.nanmax(np.abs(field))) or 1.0
        _add_map(figure, at, field, palette.diverging, (-bound, bound))
        if explanation.region is not None:
            _add_region(figure, at, _flat(explanation.region.astype(np.float64)), palette)
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
    """Draw a line around the region that a person has marked."""
    line = go.Contour(
        z=region,
        contours={"start": 0.5, "end": 0.5, "coloring": "none"},
        line={"width": 2, "color": palette.non_finite},
        showscale=False,
        hoverinfo="skip",
    )
    figure.add_trace(line, row=at // _A_ROW + 1, col=at % _A_ROW + 1)


def _flat(field: Floats) -> Floats:
    """Reduce to `(height, width)`: a vector to one row, channels to their mean, at most `_SIDE` pixels a side."""
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
    """Draw the score while the most important pixels are removed (it should fall) or inserted (it should rise)."""
    figure = make_subplots(
        rows=1, cols=2, subplot_titles=["Pixels removed: lower is better", "Pixels added: higher is better"]
    )
    figure.update_layout(template=template(palette), margin={"t": 60}, legend={"y": 1.18})
    for at, explanation in enumerate(found):
        for column, curve in enumerate((explanation.deletion, explanation.insertion), start=1):
            line = go.Scatter(
                x=list(curve.shares),
                y=[value if np.isfinite(value) else None for value in curve.scores],
                name=sentence(explanation.method),
                legendgroup=explanation.method,
                showlegend=column == 1,
                mode="lines",
                line={
                    "width": 1.8,
                    "dash": _DASHES[at % len(_DASHES)],
                    "color": palette.lines[at % len(palette.lines)],
                },
                hovertemplate="%{x:.0%} of the pixels<br><b>score %{y:.4g}</b><extra>%{fullData.name}</extra>",
            )
            figure.add_trace(line, row=1, col=column)
    figure.update_annotations(font={"size": 12, "color": palette.muted})
    figure.update_xaxes(title="share of the pixels", tickformat=".0%", showgrid=False)
    figure.update_yaxes(title="score", col=1)
    return figure
