"""The other measurements of a model: single numbers, privacy spent, membership, fuzzing, faults and drift."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from ....storage import Outcome
from ...components.page_parts import graph, panel
from ...components.tables import rows_table
from ...figures.drawing import Part, drawing
from ...formatting import number
from ...queries.evaluations import Evaluations, number_in, numbers_in, part_in
from ...theme import Palette
from .gauges import gauge_groups, gauges_table

_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
#: Rates below this are not distinguished by as many people as anybody has tested; the axis begins here.
_LOWEST: Final = 1e-4


@dataclass(frozen=True, slots=True)
class RateCurve:
    """One line, its places on both axes."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


def privacy_figure(lines: Sequence[RateCurve], palette: Palette) -> go.Figure:
    """Draw epsilon of differential privacy against the step, one line for every accountant."""
    hover = "<b>%{fullData.name}</b><br>step %{x:,}: epsilon %{y:.4g}<extra></extra>"
    return drawing(
        [_line(line, palette, at, hover) for at, line in enumerate(lines)],
        palette,
        showlegend=True,
        margin={"t": 36, "l": 56, "r": 16, "b": 40},
        xaxis={"title": {"text": "step"}, "rangemode": "tozero", "showgrid": False},
        yaxis={"title": {"text": "epsilon"}, "rangemode": "tozero"},
    )


def roc_figure(lines: Sequence[RateCurve], palette: Palette) -> go.Figure:
    """Draw true against false positive rate, both logarithmic: what matters is certainty about a few.

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
    drawn = [RateCurve(line.name, *_above_zero(line)) for line in lines]
    return drawing(
        [guess, *(_line(line, palette, at, hover) for at, line in enumerate(drawn))],
        palette,
        showlegend=True,
        margin={"t": 36, "l": 64, "r": 16, "b": 40},
        xaxis={**axis, "title": {"text": "false positive rate"}},
        yaxis={**axis, "title": {"text": "true positive rate"}},
    )


def _above_zero(line: RateCurve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    kept = [(x, y) for x, y in zip(line.x, line.y, strict=True) if x > 0 and y > 0]
    return tuple(x for x, _ in kept), tuple(y for _, y in kept)


def _line(line: RateCurve, palette: Palette, at: int, hover: str) -> Part:
    return {
        "type": "scatter",
        "x": list(line.x),
        "y": list(line.y),
        "mode": "lines" if len(line.x) > 2 else "lines+markers",
        "name": line.name,
        "line": {"width": 2, "color": palette.lines[at % len(palette.lines)], "dash": _DASHES[at % len(_DASHES)]},
        "hovertemplate": hover,
    }


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
    """Draw neurons covered and failures found, round by round."""
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
class FaultDrop:
    """A fault, and the accuracy without and with it."""

    name: str
    clean: float
    broken: float


def faults_figure(drops: Sequence[FaultDrop], palette: Palette) -> go.Figure:
    """Draw what each fault costs, the worst first: a line from the accuracy without it to that with it."""
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
    """Draw the p-value of every feature, smallest first, on a log axis with the significance level."""
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


def measured_panels(found: Evaluations, palette: Palette) -> list[html.Section]:
    """Build one panel for each kind of measurement that was made."""
    makers = {
        "metric": _single_numbers,
        "privacy": _privacy,
        "membership": _membership,
        "coverage": _coverage,
        "fault": _faults,
        "drift": _drift,
    }
    return [make(outcomes, palette) for kind, make in makers.items() if (outcomes := found.of(kind))]


def _single_numbers(outcomes: Sequence[Outcome], _: Palette) -> html.Section:
    return panel("Measured in single numbers", gauges_table(gauge_groups(outcomes)))


def _privacy(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    lines = [
        RateCurve(outcome.attack, numbers_in(outcome.details, "steps"), numbers_in(outcome.details, "epsilons"))
        for outcome in outcomes
    ]
    drawn = [line for line in lines if line.x and len(line.x) == len(line.y)]
    names = ("delta", "noise_multiplier", "sample_rate")
    rows = [
        (outcome.attack, number(outcome.epsilon), *(number(number_in(outcome.details, name)) for name in names))
        for outcome in outcomes
    ]
    table = rows_table(("Accountant", "Epsilon", "Delta", "Noise", "Sample rate"), rows, "privacy spent")
    figure = graph(
        "robustness-privacy", "epsilon of differential privacy against the step", 280, privacy_figure(drawn, palette)
    )
    return panel("Privacy spent", [figure, table] if drawn else table)


def _membership(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    names = ("false_positive_rates", "true_positive_rates")
    lines = [RateCurve(outcome.attack, *(numbers_in(outcome.details, name) for name in names)) for outcome in outcomes]
    drawn = [line for line in lines if line.x and len(line.x) == len(line.y)]
    rows = [
        (
            outcome.attack,
            *(f"{number(number_in(outcome.details, name))}{_interval(outcome, name)}" for name in ("auc", "advantage")),
            *(_share(number_in(part_in(outcome.details, "tpr_at"), rate)) for rate in ("0.001", "0.01")),
        )
        for outcome in outcomes
    ]
    head = ("Attack", "AUC", "Advantage", "Found at 0.1 % false alarms", "at 1 %")
    table = rows_table(head, rows, "membership inference")
    label = "share of the training's samples that are recognised against false alarms, both axes logarithmic"
    figure = graph("robustness-membership", label, 320, roc_figure(drawn, palette))
    return panel("Membership inference", [figure, table] if drawn else table)


def _interval(outcome: Outcome, name: str) -> str:
    ends = numbers_in(outcome.details, f"{name}_interval")
    return f" [{number(ends[0])}, {number(ends[1])}]" if len(ends) == 2 else ""


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2%}"


def _coverage(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    parts: list[Component] = []
    for at, outcome in enumerate(outcomes):
        before, after = ({name: number_in(part, name) for name in part} for part in _ends(outcome))
        drawn = graph(
            f"robustness-coverage-{at}", "coverage before and after", 260, coverage_figure(before, after, palette)
        )
        rounds = outcome.details.get("curve")
        listed = [each for each in rounds if isinstance(each, dict)] if isinstance(rounds, list | tuple) else []
        rows, shares, failed = ([number_in(each, name) for each in listed] for name in ("round", "neuron", "failures"))
        figure = rounds_figure(rows, shares, failed, palette)
        grown = graph(f"robustness-rounds-{at}", "coverage and failures by round", 260, figure)
        failures, inputs = (f"{number_in(outcome.details, name):,.0f}" for name in ("failures", "inputs"))
        words = (
            f"{failures} failures among {inputs} inputs; {outcome.accuracy:.1%} of the corpus keeps its seed's class."
        )
        parts += [
            html.P(words, className="finding-text"),
            html.Div([drawn, grown] if listed else drawn, className="two even"),
        ]
    return panel("Fuzzing", parts)


def _ends(outcome: Outcome) -> tuple[dict[str, object], dict[str, object]]:
    return dict(part_in(outcome.details, "before")), dict(part_in(outcome.details, "after"))


def _faults(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    drops = [
        FaultDrop(
            f"{outcome.attack} {outcome.norm or 'everywhere'} × {number(outcome.epsilon)}",
            number_in(outcome.details, "clean_accuracy"),
            outcome.accuracy,
        )
        for outcome in outcomes
    ]
    worst = min(drops, key=lambda drop: drop.broken)
    words = f"Worst: {worst.name} leaves {worst.broken:.1%}."
    figure = graph(
        "robustness-faults", "accuracy without and with each fault", 90 + 24 * len(drops), faults_figure(drops, palette)
    )
    return panel("Faults in weights and activations", [html.P(words, className="finding-text"), figure])


def _drift(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    rows = [
        (
            outcome.attack,
            "yes" if outcome.details.get("has_drifted") is True else "no",
            *(number(number_in(outcome.details, name)) for name in ("statistic", "p_value", "level")),
        )
        for outcome in outcomes
    ]
    table = rows_table(("Test", "Drifted", "Statistic", "p", "Level"), rows, "drift", words=2)
    figures = [
        graph(
            f"robustness-drift-{at}",
            f"p-value of every feature by {outcome.attack}",
            260,
            drift_figure(numbers_in(outcome.details, "features"), number_in(outcome.details, "level"), palette),
        )
        for at, outcome in enumerate(outcomes)
        if numbers_in(outcome.details, "features")
    ]
    return panel("Drift of the inputs", [table, *figures])
