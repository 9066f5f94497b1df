"""The metrics of several attacks on one radar: each spoke from 0 to the largest value that any attack has on it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

import plotly.graph_objects as go

from ..theme import Palette
from ..words import number
from .drawing import Part, drawing

#: What DEEPSEC measures of an attack (Ling et al. 2019, table III), in the order of the spokes.
METRICS: Final = {
    "MR": "misclassified",
    "ACAC": "confidence in the wrong class",
    "ACTC": "confidence left in the true class",
    "ALDp": "distance moved",
    "ASS": "structural similarity",
    "NTE": "noise it tolerates",
}
#: Characters of a line beside a spoke.
_LINE: Final = 18
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class Spokes:
    """One attack: its value on every spoke, NaN where it was not measured."""

    name: str
    values: Mapping[str, float]


def radar_figure(attacks: Sequence[Spokes], palette: Palette) -> go.Figure:
    """One closed line for every attack; a spoke that was not measured breaks it."""
    names = [name for name in METRICS if any(math.isfinite(one.values.get(name, math.nan)) for one in attacks)]
    largest = {name: _largest(attacks, name) for name in names}
    around = {"gridcolor": palette.grid, "linecolor": palette.grid}
    return drawing(
        [_closed(one, names, largest, palette, at) for at, one in enumerate(attacks)],
        palette,
        showlegend=True,
        margin={"t": 84, "l": 110, "r": 110, "b": 44},
        legend={"orientation": "h", "x": 0, "y": 1.16, "yanchor": "bottom"},
        polar={
            "bgcolor": "rgba(0,0,0,0)",
            "radialaxis": {"range": [0, 1.05], "showticklabels": False, "ticks": "", **around},
            "angularaxis": {
                "direction": "clockwise",
                "tickfont": {"size": 11, "color": palette.muted},
                "tickmode": "array",
                "tickvals": names,
                "ticktext": ["<br>".join([f"<b>{name}</b>", *wrap(METRICS[name], _LINE)]) for name in names],
                **around,
            },
        },
    )


def _largest(attacks: Sequence[Spokes], name: str) -> float:
    values = [one.values.get(name, math.nan) for one in attacks]
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0


def _closed(one: Spokes, names: Sequence[str], largest: Mapping[str, float], palette: Palette, at: int) -> Part:
    circle = [*names, *names[:1]]
    values = [one.values.get(name, math.nan) for name in circle]
    pairs = list(zip(circle, values, strict=True))
    shares = [value / largest[name] if math.isfinite(value) else None for name, value in pairs]
    dash = _DASHES[at // len(palette.lines) % len(_DASHES)]
    return {
        "type": "scatterpolar",
        "r": shares,
        "theta": circle,
        "customdata": [[number(value), METRICS[name]] for name, value in pairs],
        "mode": "lines+markers",
        "name": one.name,
        "line": {"width": 2, "color": palette.lines[at % len(palette.lines)], "dash": dash},
        "hovertemplate": "<b>%{fullData.name}</b><br>%{theta}, %{customdata[1]}: %{customdata[0]}<extra></extra>",
    }
