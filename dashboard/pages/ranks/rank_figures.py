"""The drawings of the page Ranks: who waited for whom in a step, and who gives how much to whom."""

from collections.abc import Iterator

import numpy as np
import plotly.graph_objects as go

from ...figures.drawing import Part, drawing
from ...queries.step_waits import CollectiveMoment, StepWaits, Traffic
from ...theme import Palette
from .rank_parts import size_words

_ROW, _EDGES = 22, 110


def waits_height(ranks: int) -> int:
    """Return the pixels that the time line of so many ranks needs."""
    return int(np.clip(ranks * _ROW + _EDGES, 170, 720))


def waits_figure(waits: StepWaits, palette: Palette) -> go.Figure:
    """Draw a row for every rank: work, waiting and collectives; dotted lines join waits to the rank that came last."""
    names = [f"rank {rank}" for rank in waits.ranks.tolist()]
    now = np.zeros(len(names))
    bars: dict[str, list[tuple[str, float, float, str]]] = {"work": [], "waiting for others": [], "collective": []}
    for moment in waits.moments:
        for at in np.flatnonzero(np.isfinite(moment.arrived_s)).tolist():
            bars["work"].append((names[at], now[at], moment.arrived_s[at], "work"))
            bars["waiting for others"].append(
                (names[at], moment.arrived_s[at], moment.met_s[at], _cause(moment, at, names))
            )
            bars["collective"].append((names[at], moment.met_s[at], moment.ended_s[at], _title(moment)))
            now[at] = moment.ended_s[at]
    for name, begin, end in zip(names, now.tolist(), waits.step_s.tolist(), strict=True):
        bars["work"].append((name, begin, end, "work"))
    looks = ((palette.lines[0], ""), (palette.lines[1], "/"), (palette.lines[2], "x"))
    traces = [_bars(name, pieces, *look) for (name, pieces), look in zip(bars.items(), looks, strict=True)]
    return drawing(
        [*traces, *_causes(waits, names, palette)],
        palette,
        barmode="overlay",
        bargap=0.3,
        height=waits_height(len(names)),
        margin={"l": 8, "r": 12, "t": 36, "b": 44},
        showlegend=True,
        xaxis={"title": {"text": f"seconds of step {waits.step:,}"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category", "automargin": True, "categoryarray": names},
    )


def _bars(name: str, pieces: list[tuple[str, float, float, str]], color: str, pattern: str) -> Part:
    shown = [piece for piece in pieces if piece[2] > piece[1]]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [piece[0] for piece in shown],
        "base": np.array([piece[1] for piece in shown]),
        "x": np.array([piece[2] - piece[1] for piece in shown]),
        "customdata": [piece[3] for piece in shown],
        "marker": {"color": color, "pattern": {"shape": pattern, "size": 6, "solidity": 0.2}, "line": {"width": 0}},
        "hovertemplate": "<b>%{y}</b><br>%{customdata}<br>%{x:.4g} s from %{base:.4g} s<extra></extra>",
    }


def _title(moment: CollectiveMoment) -> str:
    return f"{moment.site}, call {moment.call + 1}"


def _cause(moment: CollectiveMoment, at: int, names: list[str]) -> str:
    cause = int(moment.cause[at])
    return f"{_title(moment)}: waits for {names[cause] if cause >= 0 else 'a rank that is not shown'}"


def _causes(waits: StepWaits, names: list[str], palette: Palette) -> Iterator[Part]:
    """Yield the lines from the rank that came last to those that waited for it, and a mark on it."""
    x: list[float | None] = []
    y: list[str | None] = []
    marks: list[tuple[float, str, str]] = []
    for moment in waits.moments:
        for cause in np.unique(moment.cause[moment.cause >= 0]).tolist():
            group = np.flatnonzero(moment.cause == cause)
            longest = float(moment.waits_s[group].max())
            at = float(moment.met_s[cause])
            if len(group) < 2 or longest <= 0.0:
                continue
            x += [at, at, None]
            y += [names[int(group.min())], names[int(group.max())], None]
            marks.append((at, names[cause], f"{_title(moment)}: came last, others waited up to {longest:.3g} s"))
    line = {"color": palette.text, "width": 1, "dash": "dot"}
    yield {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip", "showlegend": False}
    yield {
        "type": "scatter",
        "mode": "markers",
        "name": "came last",
        "x": [mark[0] for mark in marks],
        "y": [mark[1] for mark in marks],
        "customdata": [mark[2] for mark in marks],
        "marker": {"symbol": "diamond", "size": 9, "color": palette.error},
        "hovertemplate": "<b>%{y}</b><br>%{customdata}<extra></extra>",
    }


def waits_words(waits: StepWaits) -> str:
    """Say in one sentence for whom the ranks waited in the step, for who does not see the drawing."""
    cost: dict[int, float] = {}
    for moment in waits.moments:
        for at in np.flatnonzero(np.isfinite(moment.arrived_s)).tolist():
            cause = int(moment.cause[at])
            cost[cause] = cost.get(cause, 0.0) + float(moment.waits_s[at])
    worst = max(cost, key=lambda at: cost[at])
    who = f"rank {int(waits.ranks[worst])}" if worst >= 0 else "ranks that are not shown"
    return (
        f"In step {waits.step:,} the ranks waited {sum(cost.values()):.3g} s together, {cost[worst]:.3g} s of them for "
        f"{who}. Who came when at each call is measured; how the work that all have in common "
        f"is divided between the calls is not, and it is drawn evenly."
    )


def _pair_words(sent_bytes: float, waits_s: float) -> str:
    waits = f"<br>{waits_s:.3g} s of waiting in sends and receives" if waits_s > 0.0 else ""
    return f"{size_words(sent_bytes)} a step{waits}"


def traffic_figure(found: Traffic, palette: Palette) -> go.Figure:
    """Draw a row for who gives and a column for who receives."""
    pairs = zip(found.sent_bytes.tolist(), found.waits_s.tolist(), strict=True)
    words = [list(map(_pair_words, *row)) for row in pairs]
    cells: Part = {
        "type": "heatmap",
        "x": list(found.names),
        "y": list(found.names),
        "z": np.where(found.sent_bytes > 0.0, found.sent_bytes, np.nan).astype(np.float32),
        "customdata": words,
        "zmin": 0,
        "colorscale": [[position, color] for position, color in palette.sequential],
        "colorbar": {
            "thickness": 8,
            "outlinewidth": 0,
            "tickfont": {"size": 10, "color": palette.muted},
            "ticksuffix": "B",
        },
        "hoverongaps": False,
        "hovertemplate": "<b>%{y}</b> to <b>%{x}</b><br>%{customdata}<extra></extra>",
    }
    return drawing(
        [cells],
        palette,
        height=int(np.clip(len(found.names) * 14 + 120, 240, 560)),
        margin={"l": 8, "r": 8, "t": 8, "b": 44},
        xaxis={"title": {"text": "receives"}, "type": "category", "showgrid": False, "automargin": True},
        yaxis={
            "title": {"text": "gives"},
            "type": "category",
            "autorange": "reversed",
            "showgrid": False,
            "automargin": True,
        },
    )
