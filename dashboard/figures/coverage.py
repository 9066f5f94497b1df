"""How much of a network was exercised, how it bears faults, and which features of its inputs moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from ..theme import Palette
from .drawing import Part, drawing

_MARGIN: Final = {"t": 36, "l": 56, "r": 16, "b": 40}


def coverage_figure(before: Mapping[str, float], after: Mapping[str, float], palette: Palette) -> go.Figure:
    """Share of each kind of neuron coverage that the corpus reaches, before fuzzing and after it."""
    kinds = list(dict.fromkeys((*before, *after)))
    names = [kind.replace("_", " ") for kind in kinds]
    pairs = (("before", before, palette.muted, ""), ("after", after, palette.lines[0], "/"))
    bars: list[Part] = [
        {
            "type": "bar",
            "x": names,
            "y": [shares.get(kind) for kind in kinds],
            "name": name,
            "marker": {"color": color, "pattern": {"shape": shape}},
            "hovertemplate": f"%{{x}} {name}: %{{y:.1%}}<extra></extra>",
        }
        for name, shares, color, shape in pairs
    ]
    shares = {"title": {"text": "covered"}, "tickformat": ".0%", "range": [0, 1.02]}
    return drawing(bars, palette, barmode="group", showlegend=True, margin=_MARGIN, yaxis=shares)


def rounds_figure(
    rounds: Sequence[float], shares: Sequence[float], failures: Sequence[float], palette: Palette
) -> go.Figure:
    """Neurons covered and failures found, round by round."""
    covered: Part = {
        "type": "scatter",
        "x": list(rounds),
        "y": list(shares),
        "mode": "lines",
        "name": "neurons covered",
        "line": {"width": 2, "color": palette.lines[0]},
        "hovertemplate": "round %{x}: %{y:.1%} of the neurons<extra></extra>",
    }
    found: Part = {
        **covered,
        "y": list(failures),
        "yaxis": "y2",
        "name": "failures found",
        "line": {"width": 2, "dash": "dash", "color": palette.lines[1]},
        "hovertemplate": "round %{x}: %{y:,} failures<extra></extra>",
    }
    return drawing(
        [covered, found],
        palette,
        showlegend=True,
        margin={**_MARGIN, "r": 56},
        xaxis={"title": {"text": "round"}, "showgrid": False},
        yaxis={"title": {"text": "covered"}, "tickformat": ".0%", "rangemode": "tozero"},
        yaxis2={
            "title": {"text": "failures"},
            "overlaying": "y",
            "side": "right",
            "tickmode": "auto",
            "rangemode": "tozero",
            "showgrid": False,
        },
    )


@dataclass(frozen=True, slots=True)
class Drop:
    """A fault, and the accuracy without and with it."""

    name: str
    clean: float
    broken: float


def faults_figure(drops: Sequence[Drop], palette: Palette) -> go.Figure:
    """What each fault costs, the worst first: a line from the accuracy without it to that with it."""
    ordered = sorted(drops, key=lambda drop: drop.broken)
    ends: Part = {
        "type": "scatter",
        "y": [drop.name for drop in ordered],
        "mode": "markers",
        "hovertemplate": "%{y}<br>%{fullData.name}: %{x:.1%}<extra></extra>",
    }
    rows: list[Part] = [
        {
            **ends,
            "x": [drop.clean for drop in ordered],
            "name": "without",
            "marker": {"symbol": "line-ns-open", "size": 11, "color": palette.muted},
        },
        {
            **ends,
            "x": [drop.broken for drop in ordered],
            "name": "with the fault",
            "marker": {"symbol": "circle", "size": 9, "color": palette.lines[1]},
        },
    ]
    ways = [
        {
            "type": "line",
            "x0": drop.clean,
            "x1": drop.broken,
            "y0": drop.name,
            "y1": drop.name,
            "line": {"width": 1, "color": palette.grid},
        }
        for drop in ordered
    ]
    return drawing(
        rows,
        palette,
        showlegend=True,
        margin=_MARGIN,
        shapes=ways,
        xaxis={"title": {"text": "accuracy"}, "tickformat": ".0%", "range": [-0.02, 1.02]},
        yaxis={"type": "category", "autorange": "reversed", "automargin": True, "tickfont": {"size": 11}},
    )


def drift_figure(chances: Sequence[float], level: float, palette: Palette) -> go.Figure:
    """The p-value of every feature, smallest first, on a log axis with the level below which one has moved."""
    ordered = sorted((max(chance, 1e-300), at) for at, chance in enumerate(chances) if chance == chance)
    features: Part = {
        "type": "scatter",
        "x": list(range(1, len(ordered) + 1)),
        "y": [chance for chance, _ in ordered],
        "customdata": [at for _, at in ordered],
        "mode": "markers",
        "name": "features",
        "marker": {
            "size": 7,
            "symbol": ["diamond" if chance < level else "circle-open" for chance, _ in ordered],
            "color": [palette.error if chance < level else palette.lines[0] for chance, _ in ordered],
        },
        "hovertemplate": "feature %{customdata}: p %{y:.3g}<extra></extra>",
    }
    line = {"width": 1, "dash": "dash", "color": palette.warning}
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level, "line": line}
    return drawing(
        [features],
        palette,
        showlegend=False,
        margin=_MARGIN,
        shapes=[across] if level > 0 else [],
        xaxis={"title": {"text": "features by p-value"}, "showgrid": False},
        yaxis={"title": {"text": "p"}, "type": "log", "exponentformat": "power"},
    )
