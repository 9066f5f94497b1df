"""What a training gives away: the privacy it spends step by step, and how well members can be told from others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from ..theme import Palette
from .drawing import Part, drawing

_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
#: Rates below this are not told apart by as many people as anybody has tested; the axis begins here.
_LOWEST: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Rates:
    """One line, its places on both axes."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


def spent_figure(lines: Sequence[Rates], palette: Palette) -> go.Figure:
    """Epsilon of differential privacy against the step, one line for every accountant."""
    hover = "<b>%{fullData.name}</b><br>step %{x:,}: epsilon %{y:.4g}<extra></extra>"
    return drawing(
        [_line(line, palette, at, hover) for at, line in enumerate(lines)],
        palette,
        showlegend=True,
        margin={"t": 36, "l": 56, "r": 16, "b": 40},
        xaxis={"title": {"text": "step"}, "rangemode": "tozero", "showgrid": False},
        yaxis={"title": {"text": "epsilon"}, "rangemode": "tozero"},
    )


def roc_figure(lines: Sequence[Rates], palette: Palette) -> go.Figure:
    """True against false positive rate, both logarithmic: what matters is how sure one can be of a few.

    Carlini et al. 2022, arXiv:2112.03570, section IV. A rate of 0 has no place on the axes and is left out.
    """
    hover = "<b>%{fullData.name}</b><br>%{y:.3%} of members at %{x:.3%} false alarms<extra></extra>"
    guess: Part = {
        "type": "scatter",
        "x": [_LOWEST, 1],
        "y": [_LOWEST, 1],
        "mode": "lines",
        "name": "guessing",
        "line": {"width": 1, "dash": "dot", "color": palette.muted},
        "hoverinfo": "skip",
    }
    axis = {"type": "log", "range": [-4, 0.05], "tickformat": ".2~%", "dtick": 1}
    drawn = [Rates(line.name, *_above_zero(line)) for line in lines]
    return drawing(
        [guess, *(_line(line, palette, at, hover) for at, line in enumerate(drawn))],
        palette,
        showlegend=True,
        margin={"t": 36, "l": 64, "r": 16, "b": 40},
        xaxis={**axis, "title": {"text": "false positive rate"}},
        yaxis={**axis, "title": {"text": "true positive rate"}},
    )


def _above_zero(line: Rates) -> tuple[tuple[float, ...], tuple[float, ...]]:
    kept = [(x, y) for x, y in zip(line.x, line.y, strict=True) if x > 0 and y > 0]
    return tuple(x for x, _ in kept), tuple(y for _, y in kept)


def _line(line: Rates, palette: Palette, at: int, hover: str) -> Part:
    return {
        "type": "scatter",
        "x": list(line.x),
        "y": list(line.y),
        "mode": "lines" if len(line.x) > 2 else "lines+markers",
        "name": line.name,
        "line": {"width": 2, "color": palette.lines[at % len(palette.lines)], "dash": _DASHES[at % len(_DASHES)]},
        "hovertemplate": hover,
    }
