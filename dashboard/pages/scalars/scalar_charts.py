"""One chart of the wall: a scalar of some runs over one axis, as it was logged and smoothed."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from ....storage import Run
from ...figures.curve_figure import points_of
from ...figures.drawing import Part, drawing, packed
from ...figures.series_figure import DASHES
from ...figures.smoothing import smoothed
from ...queries.reader import Reader
from ...queries.x_axes import along
from ...theme import Palette

#: Group of the scalars whose names have no prefix.
NO_PREFIX: Final = "(no prefix)"
HEIGHT: Final = 190
#: Points of a chart, over all of its runs: what a small chart can show and a page can carry.
_POINTS: Final = 30_000
_FEWEST, _MOST = 150, 1000
_BEHIND: Final = 0.28
#: Values this near to each other, relative to their size, are the same but for rounding.
_SAME: Final = 1e-6


def groups_of(names: Sequence[str], match: str = "") -> dict[str, list[str]]:
    """Group the names by what stands before their first slash; those without one come first.

    Args:
        match: Words that a name must contain, in any case; separated by blanks, one of them is enough.
    """
    wanted = match.lower().split()
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        if not wanted or any(word in name.lower() for word in wanted):
            prefix, slash, _ = name.partition("/")
            groups.setdefault(prefix if slash else NO_PREFIX, []).append(name)
    return dict(sorted(groups.items(), key=lambda pair: (pair[0] != NO_PREFIX, pair[0])))


def first_groups(groups: dict[str, list[str]], most: int = 24) -> list[str]:
    """Return the groups that are open at first: the first ones, as long as they have no more than `most` charts."""
    opened: list[str] = []
    charts = 0
    for group, names in groups.items():
        charts += len(names)
        if opened and charts > most:
            break
        opened.append(group)
    return opened


def scalar_chart(
    reader: Reader,
    runs: Sequence[Run],
    name: str,
    palette: Palette,
    *,
    smoothing: float = 0.0,
    axis: str = "step",
    log: bool = False,
) -> go.Figure:
    """Draw the scalar of every run that has it; the same run has the same colour and dash in every chart.

    Args:
        smoothing: Weight of the past, 0 to below 1; what was logged stays visible behind the smoothed line.
        axis: `step`, or what else runs are laid over each other by.
    """
    limit = int(np.clip(_POINTS // max(1, len(runs)), _FEWEST, _MOST))
    traces: list[Part] = []
    for at, run in enumerate(runs):
        if name in reader.scalars(run.id):
            traces += _traces(reader, run, name, palette, at, limit=limit, smoothing=smoothing, axis=axis, log=log)
    return drawing(
        traces,
        palette,
        showlegend=False,
        height=HEIGHT,
        margin={"l": 48, "r": 8, "t": 8, "b": 26},
        uirevision=f"{name} {axis} {log}",
        xaxis={"showgrid": False, "nticks": 5},
        yaxis={
            "type": "log" if log else "linear",
            "nticks": 5,
            "exponentformat": "e",
            "automargin": True,
            **_level(traces, log),
        },
        yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    )


def _level(traces: Sequence[Part], log: bool) -> Part:
    """Return the range of the value axis where all values are the same, where Plotly would draw steps of rounding."""
    drawn = [np.asarray(trace["y"], np.float64) for trace in traces if "yaxis" not in trace]
    values = np.concatenate(drawn) if drawn else np.empty(0)
    values = values[np.isfinite(values)]
    if log or not values.size or np.ptp(values) > _SAME * np.abs(values).max():
        return {}
    middle = float(values[0])
    reach = 0.1 * abs(middle) or 1.0
    return {"range": [middle - reach, middle + reach]}


def _traces(
    reader: Reader,
    run: Run,
    name: str,
    palette: Palette,
    at: int,
    *,
    limit: int,
    smoothing: float,
    axis: str,
    log: bool,
) -> list[Part]:
    series = reader.scalar(run.id, name, limit=limit)
    x = along(reader, run, series, axis)
    points = points_of(series.steps, series.values, log=log)
    logged = np.array(points.y, dtype=np.float64)
    color, dash = line_style(at, palette)
    label = run.name or run.id
    hover = f"{label}<br>step %{{customdata}}<br><b>%{{y:.6g}}</b><extra></extra>"
    drawn: Part = {
        "type": "scatter",
        "mode": "lines+markers" if len(points.x) <= 3 else "lines",
        "name": label,
        "x": x,
        "y": logged,
        "customdata": packed(points.x),
        "line": {"width": 1.4, "color": color, "dash": dash},
        "hovertemplate": hover,
    }
    found = [drawn]
    if smoothing > 0:
        found = [{**drawn, "opacity": _BEHIND, "hoverinfo": "skip", "hovertemplate": None}]
        found.append({**drawn, "y": smoothed(logged, smoothing), "line": {"width": 1.8, "color": color, "dash": dash}})
    return [
        *found,
        *_marks(
            points.mark_x, points.mark_text, points.mark_symbol, dict(zip(points.x, x.tolist(), strict=True)), palette
        ),
    ]


def _marks(
    steps: Sequence[int], words: Sequence[str], symbols: Sequence[str], places: dict[int, float], palette: Palette
) -> list[Part]:
    """Mark what is not on the axis at the top of the chart."""
    if not steps:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [places[step] for step in steps],
            "y": [0.97] * len(steps),
            "yaxis": "y2",
            "text": [f"step {step}: {word}" for step, word in zip(steps, words, strict=True)],
            "marker": {"symbol": list(symbols), "size": 6, "color": palette.non_finite},
            "hovertemplate": "%{text}<extra></extra>",
        }
    ]


def line_style(at: int, palette: Palette) -> tuple[str, str]:
    """Return colour and dash of a run by its position; after 36 runs they come again."""
    return palette.lines[at % len(palette.lines)], DASHES[at // len(palette.lines) % len(DASHES)]


def run_legend(runs: Sequence[Run], palette: Palette) -> Component:
    """Name every run beside a piece of its line; empty for one run, which stands in the heading."""
    if len(runs) < 2:
        return html.Div()
    borders = {"solid": "solid", "dash": "dashed", "dot": "dotted"}
    entries = []
    for at, run in enumerate(runs):
        color, dash = line_style(at, palette)
        piece = {"borderTop": f"3px {borders.get(dash, 'double')} {color}"}
        entries.append(
            html.Span(
                [html.Span(className="legend-line", style=piece), run.name or run.id],
                className="legend-run",
                title=run.id,
            )
        )
    return html.Div(entries, className="legend")
