"""Accuracy against the attacker's budget: a line for each attack, the worst case, and the certified bound below."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import plotly.graph_objects as go

from ...storage import Outcome
from ..formatting import number
from ..theme import Palette, faint
from .drawing import Part, drawing

Role = Literal["attack", "worst-case", "certificate"]
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "star")
_DASHES: Final = ("dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
_BEHIND: Final = 0.35


@dataclass(frozen=True, slots=True)
class AttackLine:
    """One attack in one norm: accuracy and what to read about it at each budget, by growing budget."""

    name: str
    epsilons: tuple[float, ...]
    accuracies: tuple[float, ...]
    texts: tuple[str, ...]
    role: Role = "attack"


def attack_lines(outcomes: Sequence[Outcome], role: Role = "attack") -> tuple[AttackLine, ...]:
    """Return the lines of all attacks, sorted by name and norm."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.attack, outcome.norm), []).append(outcome)
    return tuple(_line_of(f"{attack} ({norm})", groups[attack, norm], role) for attack, norm in sorted(groups))


def _line_of(name: str, outcomes: list[Outcome], role: Role) -> AttackLine:
    ordered = sorted(outcomes, key=lambda outcome: outcome.epsilon)
    if role == "certificate" and ordered[0].epsilon > 0:
        ordered.insert(0, replace(ordered[0], epsilon=0.0))  # what holds at a budget holds at every smaller one
    return AttackLine(
        name,
        tuple(outcome.epsilon for outcome in ordered),
        tuple(outcome.accuracy for outcome in ordered),
        tuple(_text(outcome, role) for outcome in ordered),
        role,
    )


def _text(outcome: Outcome, role: Role) -> str:
    if role == "certificate":
        return f"{outcome.samples:,} samples, no attack can do better than this"
    if math.isnan(outcome.median_distance):
        return f"{outcome.samples:,} samples, no adversarial example found"
    return f"{outcome.samples:,} samples, median distance {number(outcome.median_distance)}"


def robustness_figure(
    lines: Sequence[AttackLine], palette: Palette, *, chosen: str | None = None, epsilon: float | None = None
) -> go.Figure:
    """Draw lines from clean accuracy down; each has its own colour, dash and symbol.

    Args:
        lines: Certificates among them are drawn as steps, the area that is certain below them: between two budgets
            only that of the larger one holds.
        chosen: Name of a line; the other attacks stand back.
        epsilon: Where a thin line stands.
    """
    names = {line.name for line in lines}
    order = [line for line in lines if line.role == "certificate"] + [
        line for line in lines if line.role != "certificate"
    ]
    traces = [
        {**_line(line, palette, at), "opacity": _BEHIND}
        if chosen in names and line.role == "attack" and line.name != chosen
        else _line(line, palette, at)
        for at, line in enumerate(order)
    ]
    rule = {"width": 1, "color": palette.muted, "dash": "dot"}
    mark = {"type": "line", "x0": epsilon, "x1": epsilon, "yref": "paper", "y0": 0, "y1": 1, "line": rule}
    return drawing(
        traces,
        palette,
        showlegend=True,
        uirevision=" ".join(sorted(names)),
        margin={"t": 36, "l": 56, "r": 16, "b": 40},
        shapes=[] if epsilon is None else [mark],
        xaxis={"title": {"text": "epsilon"}, "rangemode": "tozero", "showgrid": False},
        yaxis={"title": {"text": "accuracy"}, "tickformat": ".0%", "range": [-0.02, 1.02]},
    )


def _line(line: AttackLine, palette: Palette, at: int) -> Part:
    color = palette.text if line.role == "worst-case" else palette.lines[at % len(palette.lines)]
    dash = "solid" if line.role == "worst-case" else _DASHES[at % len(_DASHES)]
    looks: Part = {
        "line": {"width": 2.6 if line.role == "worst-case" else 2, "dash": dash, "color": color},
        "marker": {"symbol": _SYMBOLS[at % len(_SYMBOLS)], "size": 8},
    }
    if line.role == "certificate":
        shape = {"width": 2, "dash": "solid", "color": color, "shape": "vh"}
        looks = {"line": shape, "marker": {"symbol": "line-ew-open", "size": 9}, "fill": "tozeroy"}
        looks = {**looks, "fillcolor": faint(color, 0.12)}
    return {
        "type": "scatter",
        "x": list(line.epsilons),
        "y": list(line.accuracies),
        "text": list(line.texts),
        "name": line.name,
        "mode": "lines+markers",
        "hovertemplate": "<b>%{fullData.name}</b><br>epsilon %{x:.4g}: %{y:.1%}<br>%{text}<extra></extra>",
        **looks,
    }
