"""The other measurements of a model: single numbers, what its training gives away, fuzzing, faults, drift."""

import math
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from ...storage import Outcome
from ..data.evaluations import Evaluations, number_in, numbers_in, part_in
from ..data.gauges import gauged
from ..figures.coverage import Drop, coverage_figure, drift_figure, faults_figure, rounds_figure
from ..figures.privacy import Rates, roc_figure, spent_figure
from ..theme import Palette
from ..words import number
from .gauges import gauges_table
from .graph import graph
from .panel import panel
from .rows import rows_table


def measured_panels(found: Evaluations, palette: Palette) -> list[html.Section]:
    """One panel for each kind of measurement that was made."""
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
    return panel("Measured in single numbers", gauges_table(gauged(outcomes)))


def _privacy(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    lines = [
        Rates(one.attack, numbers_in(one.details, "steps"), numbers_in(one.details, "epsilons")) for one in outcomes
    ]
    drawn = [line for line in lines if line.x and len(line.x) == len(line.y)]
    names = ("delta", "noise_multiplier", "sample_rate")
    rows = [
        (one.attack, number(one.epsilon), *(number(number_in(one.details, name)) for name in names)) for one in outcomes
    ]
    table = rows_table(("Accountant", "Epsilon", "Delta", "Noise", "Sample rate"), rows, "privacy spent")
    picture = graph(
        "robustness-privacy", "epsilon of differential privacy against the step", 280, spent_figure(drawn, palette)
    )
    return panel("Privacy spent", [picture, table] if drawn else table)


def _membership(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    names = ("false_positive_rates", "true_positive_rates")
    lines = [Rates(one.attack, *(numbers_in(one.details, name) for name in names)) for one in outcomes]
    drawn = [line for line in lines if line.x and len(line.x) == len(line.y)]
    rows = [
        (
            one.attack,
            number(number_in(one.details, "auc")),
            number(number_in(one.details, "advantage")),
            *(_share(number_in(part_in(one.details, "tpr_at"), rate)) for rate in ("0.001", "0.01")),
        )
        for one in outcomes
    ]
    head = ("Attack", "AUC", "Advantage", "Found at 0.1 % false alarms", "at 1 %")
    table = rows_table(head, rows, "membership inference")
    label = "share of the training's samples that are recognised against false alarms, both axes logarithmic"
    picture = graph("robustness-membership", label, 320, roc_figure(drawn, palette))
    return panel("Who was in the training", [picture, table] if drawn else table)


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2%}"


def _coverage(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    parts: list[Component] = []
    for at, one in enumerate(outcomes):
        before, after = ({name: number_in(part, name) for name in part} for part in _ends(one))
        drawn = graph(
            f"robustness-coverage-{at}", "coverage before and after", 260, coverage_figure(before, after, palette)
        )
        rounds = one.details.get("curve")
        listed = [each for each in rounds if isinstance(each, dict)] if isinstance(rounds, list | tuple) else []
        rows, shares, failed = ([number_in(each, name) for each in listed] for name in ("round", "neuron", "failures"))
        picture = rounds_figure(rows, shares, failed, palette)
        grown = graph(f"robustness-rounds-{at}", "coverage and failures by round", 260, picture)
        failures, inputs = (f"{number_in(one.details, name):,.0f}" for name in ("failures", "inputs"))
        words = f"{failures} failures among {inputs} inputs; {one.accuracy:.1%} of the corpus keeps its seed's class."
        parts += [
            html.P(words, className="finding-text"),
            html.Div([drawn, grown] if listed else drawn, className="two even"),
        ]
    return panel("Fuzzed", parts)


def _ends(one: Outcome) -> tuple[dict[str, object], dict[str, object]]:
    return dict(part_in(one.details, "before")), dict(part_in(one.details, "after"))


def _faults(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    drops = [
        Drop(
            f"{one.attack} {one.norm or 'everywhere'} × {number(one.epsilon)}",
            number_in(one.details, "clean_accuracy"),
            one.accuracy,
        )
        for one in outcomes
    ]
    worst = min(drops, key=lambda drop: drop.broken)
    words = f"Worst: {worst.name} leaves {worst.broken:.1%}."
    picture = graph(
        "robustness-faults", "accuracy without and with each fault", 90 + 24 * len(drops), faults_figure(drops, palette)
    )
    return panel("Faults in weights and activations", [html.P(words, className="finding-text"), picture])


def _drift(outcomes: Sequence[Outcome], palette: Palette) -> html.Section:
    rows = [
        (
            one.attack,
            "yes" if one.details.get("has_drifted") is True else "no",
            *(number(number_in(one.details, name)) for name in ("statistic", "p_value", "level")),
        )
        for one in outcomes
    ]
    table = rows_table(("Test", "Drifted", "Statistic", "p", "Level"), rows, "drift", words=2)
    pictures = [
        graph(
            f"robustness-drift-{at}",
            f"p-value of every feature by {one.attack}",
            260,
            drift_figure(numbers_in(one.details, "features"), number_in(one.details, "level"), palette),
        )
        for at, one in enumerate(outcomes)
        if numbers_in(one.details, "features")
    ]
    return panel("Drift of the inputs", [table, *pictures])
