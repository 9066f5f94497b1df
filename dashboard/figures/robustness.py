"""Accuracy against the attacker's budget, one line for every attack."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from ...storage import Outcome
from ..theme import Palette, template
from ..words import number

_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "star")
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class AttackLine:
    """One attack in one norm: accuracy and what to read about it at each budget, by growing budget."""

    name: str
    epsilons: tuple[float, ...]
    accuracies: tuple[float, ...]
    texts: tuple[str, ...]


def attack_lines(outcomes: Sequence[Outcome]) -> tuple[AttackLine, ...]:
    """The lines of all attacks, sorted by name and norm."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.attack, outcome.norm), []).append(outcome)
    return tuple(_line(f"{attack} ({norm})", groups[attack, norm]) for attack, norm in sorted(groups))


def _line(name: str, outcomes: list[Outcome]) -> AttackLine:
    ordered = sorted(outcomes, key=lambda outcome: outcome.epsilon)
    return AttackLine(
        name,
        tuple(outcome.epsilon for outcome in ordered),
        tuple(outcome.accuracy for outcome in ordered),
        tuple(_text(outcome) for outcome in ordered),
    )


def _text(outcome: Outcome) -> str:
    if math.isnan(outcome.median_distance):
        return f"{outcome.samples:,} samples, no adversarial example found"
    return f"{outcome.samples:,} samples, median distance {number(outcome.median_distance)}"


def robustness_figure(lines: Sequence[AttackLine], palette: Palette) -> go.Figure:
    """Lines from clean accuracy down; each has its own colour, dash and symbol."""
    figure = go.Figure(layout={"template": template(palette)})
    for index, line in enumerate(lines):
        figure.add_scatter(
            x=list(line.epsilons),
            y=list(line.accuracies),
            text=list(line.texts),
            name=line.name,
            mode="lines+markers",
            line={
                "width": 2,
                "dash": _DASHES[index % len(_DASHES)],
                "color": palette.lines[index % len(palette.lines)],
            },
            marker={"symbol": _SYMBOLS[index % len(_SYMBOLS)], "size": 8},
            hovertemplate="<b>%{fullData.name}</b><br>epsilon %{x:.4g}: %{y:.1%}<br>%{text}<extra></extra>",
        )
    figure.update_layout(
        showlegend=True,
        margin={"t": 36},
        xaxis={"title": "epsilon", "rangemode": "tozero", "showgrid": False},
        yaxis={"title": "accuracy", "tickformat": ".0%", "range": [-0.02, 1.02]},
    )
    return figure
