"""Series held against what is known of them: limits, findings, and marks for what no axis can hold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from ..theme import Palette
from .curve import Flag
from .drawing import Part, drawing, packed
from .points import Points

_VALUES: Final = 0.87
_MARKS, _FLAGS = 0.25, 0.8
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS: Final = {"error": "diamond", "warning": "triangle-up", "info": "circle"}
Place = int | float | str


@dataclass(frozen=True, slots=True)
class Track:
    """One series.

    Args:
        x: Where each of the points stands on the axis.
        mark_x: Where each of their marks stands.
    """

    name: str
    points: Points
    x: tuple[Place, ...]
    mark_x: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A value that the series is held against, and what says so."""

    value: float
    words: str


def held_figure(
    lines: Sequence[Track],
    palette: Palette,
    *,
    title: str,
    levels: Sequence[Level] = (),
    flags: Sequence[tuple[Place, Flag]] = (),
    selected: Place | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> go.Figure:
    """The lines; a legend where there are several, every line with its own colour and dash.

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


def _line(line: Track, palette: Palette, index: int) -> list[Part]:
    color, points = palette.lines[index % len(palette.lines)], line.points
    dash = _DASHES[index // len(palette.lines) % len(_DASHES)]
    carried, step = steps_of(points, line.x)
    curve = {
        "type": "scatter",
        "x": packed(line.x),
        "y": packed(points.y),
        **carried,
        "mode": "lines+markers" if len(points.x) < 3 else "lines",
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


def steps_of(points: Points, x: tuple[Place, ...]) -> tuple[Part, str]:
    """What a trace carries so that the browser knows the steps of its points, and the name of that in a hover."""
    return ({}, "x") if x == points.x else ({"customdata": packed(points.x)}, "customdata")


def _flags(flags: Sequence[tuple[Place, Flag]], palette: Palette) -> list[Part]:
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
            "x": [place for place, _ in flags],
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


def _across(level: Level, palette: Palette) -> Part:
    rule = {"width": 1, "color": palette.warning, "dash": "dash"}
    return {"type": "line", "xref": "x domain", "x0": 0, "x1": 1, "y0": level.value, "y1": level.value, "line": rule}


def _words(level: Level, palette: Palette, *, log: bool) -> Part:
    """What a level is, at its right end; Plotly takes the place of words on a log axis as a logarithm."""
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
