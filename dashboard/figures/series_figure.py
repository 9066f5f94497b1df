"""Several series over one axis, with limits, findings, and marks for values that no axis can hold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ..theme import Palette
from .curve_figure import Flag, Points, points_of
from .drawing import Part, drawing, packed

_VALUES: Final = 0.87
_MARKS, _FLAGS = 0.25, 0.8
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS: Final = {"error": "diamond", "warning": "triangle-up", "info": "circle"}
AxisValue = int | float | str


@dataclass(frozen=True, slots=True)
class SeriesLine:
    """One series.

    Args:
        x: Where each of the points stands on the axis.
        mark_x: Where each of their marks stands.
    """

    name: str
    points: Points
    x: tuple[AxisValue, ...]
    mark_x: tuple[AxisValue, ...]


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A value that the series is held against, and what says so."""

    value: float
    words: str


def series_figure(
    lines: Sequence[SeriesLine],
    palette: Palette,
    *,
    title: str,
    levels: Sequence[LimitLine] = (),
    flags: Sequence[tuple[AxisValue, Flag]] = (),
    selected: AxisValue | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> go.Figure:
    """Draw the lines, with a legend where there are several; every line has its own colour and dash.

    Args:
        title: What the axis is.
        levels: Drawn as lines across.
        flags: Findings with the places where they began.
        selected: Where a thin line stands.
    """
    shown = [level for level in levels if not log_y or level.value > 0]
    shapes = [_across(level, palette) for level in shown]
    if selected is not None:
        rule = {"width": 1, "color": palette.muted, "dash": "dot"}
        shapes.append(
            {"type": "line", "x0": selected, "x1": selected, "yref": "paper", "y0": 0, "y1": _VALUES, "line": rule}
        )
    return drawing(
        [*(trace for at, line in enumerate(lines) for trace in _line(line, palette, at)), *_flags(flags, palette)],
        palette,
        showlegend=len(lines) > 1,
        shapes=shapes,
        annotations=[_words(level, palette, log=log_y) for level in shown],
        xaxis={"title": {"text": title}, "showgrid": False, "type": "log" if log_x else "-"},
        yaxis={"type": "log" if log_y else "linear", "domain": [0, _VALUES], "exponentformat": "power"},
        yaxis2={"domain": [_VALUES, 1], "range": [0, 1], "anchor": "x", "visible": False, "fixedrange": True},
    )


def _line(line: SeriesLine, palette: Palette, index: int) -> list[Part]:
    color, points = palette.lines[index % len(palette.lines)], line.points
    dash = DASHES[index // len(palette.lines) % len(DASHES)]
    carried, step = steps_of(points, line.x)
    curve = {
        "type": "scatter",
        "x": packed(line.x),
        "y": packed(points.y),
        **carried,
        "mode": "lines+markers" if len(points.x) <= 3 else "lines",
        "name": line.name,
        "line": {"width": 1.8, "color": color, "dash": dash},
        "hovertemplate": f"%{{fullData.name}}<br>step %{{{step}}}<br><b>%{{y:.6g}}</b><extra></extra>",
    }
    if not line.mark_x:
        return [curve]
    marks = {
        "type": "scatter",
        "x": list(line.mark_x),
        "y": [_MARKS] * len(line.mark_x),
        "yaxis": "y2",
        "mode": "markers",
        "name": f"{line.name}: not on the axis",
        "showlegend": False,
        "text": [f"step {step}: {words}" for step, words in zip(points.mark_x, points.mark_text, strict=True)],
        "marker": {"symbol": list(points.mark_symbol), "size": 8, "color": palette.non_finite},
        "cliponaxis": False,
        "hovertemplate": "%{text}<extra></extra>",
    }
    return [curve, marks]


def steps_of(points: Points, x: tuple[AxisValue, ...]) -> tuple[Part, str]:
    """Return the trace entry that tells the browser the steps of its points, and its name in a hover."""
    return ({}, "x") if x == points.x else ({"customdata": packed(points.x)}, "customdata")


def _flags(flags: Sequence[tuple[AxisValue, Flag]], palette: Palette) -> list[Part]:
    if not flags:
        return []
    marker = {
        "symbol": [_SYMBOLS[flag.severity] for _, flag in flags],
        "size": 10,
        "color": [palette.severity(flag.severity) for _, flag in flags],  # type: ignore[arg-type]  # a severity
    }
    return [
        {
            "type": "scatter",
            "x": [position for position, _ in flags],
            "y": [_FLAGS] * len(flags),
            "yaxis": "y2",
            "mode": "markers",
            "name": "findings",
            "showlegend": False,
            "text": [f"<b>since step {flag.step}</b><br>{flag.text}" for _, flag in flags],
            "marker": marker,
            "cliponaxis": False,
            "hovertemplate": "%{text}<extra></extra>",
        }
    ]


def _across(level: LimitLine, palette: Palette) -> Part:
    rule = {"width": 1, "color": palette.warning, "dash": "dash"}
    return {"type": "line", "xref": "x domain", "x0": 0, "x1": 1, "y0": level.value, "y1": level.value, "line": rule}


def _words(level: LimitLine, palette: Palette, *, log: bool) -> Part:
    """Label a level at its right end; on a log axis Plotly expects the logarithm as the label's position."""
    return {
        "text": level.words,
        "font": {"size": 10, "color": palette.warning},
        "xref": "x domain",
        "x": 1,
        "xanchor": "right",
        "y": math.log10(level.value) if log else level.value,
        "yanchor": "bottom",
        "showarrow": False,
    }


_BEHIND: Final = 0.35


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One series.

    Args:
        steps: `(n,)` int64.
        x: `(n,)` where each value stands: steps, seconds, tokens or epochs.
        values: `(n,)`; NaN and infinities become marks and break the line.
    """

    name: str
    steps: NDArray[np.int64]
    x: NDArray[np.float64]
    values: NDArray[np.float64]


def overlay_figure(
    lines: Sequence[Line],
    palette: Palette,
    *,
    title: str,
    axis: str = "step",
    chosen: str | None = None,
    log: bool = False,
) -> go.Figure:
    """Draw the lines; fade the others where one is chosen.

    Args:
        chosen: Name of a line.
        log: A logarithmic value axis; what is not positive becomes a mark.
    """
    figure = series_figure([_track(line, log) for line in lines], palette, title=axis, log_y=log)
    places = {line.name: index for index, line in enumerate(lines)}
    for trace in figure.data:
        if trace.name in places:
            trace.line.dash = DASHES[places[trace.name] % len(DASHES)]
            trace.opacity = _BEHIND if chosen in places and trace.name != chosen else 1.0
    figure.update_layout(margin={"t": 36}, uirevision=f"{title} {axis}", showlegend=True, yaxis={"title": title})
    return figure


def _track(line: Line, log: bool) -> SeriesLine:
    points = points_of(line.steps, line.values, log=log)
    filled_address = dict(zip(line.steps.tolist(), line.x.tolist(), strict=True))
    return SeriesLine(line.name, points, tuple(line.x.tolist()), tuple(filled_address[step] for step in points.mark_x))
