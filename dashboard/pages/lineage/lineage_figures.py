"""Runs side by side: parallel coordinates, the importance of parameters, and correlations with results."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log10
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ....insight.lineage import Importance, Provenance, importance
from ....storage import Json
from ...formatting import number, short_site
from ...queries.provenance_queries import RESULT, Correlations, correlations, is_numeric, results_of
from ...theme import Palette, template

#: A share that came about by chance more often than this is drawn hatched: the usual bound of significance.
CHANCE: Final = 0.05
_LABEL: Final = 30


def bars_height(bars: int) -> int:
    """Return the pixels that so many bars need."""
    return int(np.clip(bars * 26 + 70, 130, 460))


def importance_figure(found: Sequence[Importance], palette: Palette) -> go.Figure:
    """Share of the result's variance by parameter, the largest first; hatched what may be chance."""
    figure = go.Figure(layout={"template": template(palette)})
    is_chance = [parameter.p_value > CHANCE for parameter in found]
    figure.add_bar(
        y=[short_site(parameter.field, _LABEL) for parameter in found],
        x=[parameter.share for parameter in found],
        orientation="h",
        text=[_words(parameter) for parameter in found],
        textposition="none",
        marker={
            "color": [palette.muted if chance else palette.lines[0] for chance in is_chance],
            "pattern": {"shape": ["/" if chance else "" for chance in is_chance]},
        },
        hovertemplate="<b>%{y}</b><br>%{x:.0%} of the variance<br>%{text}<extra></extra>",
    )
    figure.update_layout(
        height=bars_height(len(found)),
        xaxis={"title": "share of the result's variance; hatched: may be chance", "range": [0, 1], "tickformat": ".0%"},
        yaxis={"autorange": "reversed", "type": "category", "automargin": True},
    )
    return figure


def _words(parameter: Importance) -> str:
    ranked = (
        "" if parameter.correlation != parameter.correlation else f", rank correlation {parameter.correlation:+.2f}"
    )
    return f"p {parameter.p_value:.3f}{ranked}, {parameter.runs} runs"


def correlation_figure(
    fields: Sequence[str], results: Sequence[str], found: Correlations, palette: Palette
) -> go.Figure:
    """Rank correlation of parameters with results, and of how many runs; empty where too few runs have both."""
    values = found.values
    pairs = [list(zip(*both, strict=True)) for both in zip(values.tolist(), found.runs.tolist(), strict=True)]
    figure = go.Figure(layout={"template": template(palette)})
    figure.add_heatmap(
        z=values,
        x=[short_site(name, 18) for name in results],
        y=[short_site(name, _LABEL) for name in fields],
        zmin=-1,
        zmax=1,
        colorscale=[list(stop) for stop in palette.diverging],
        text=[[f"{value:+.2f}  n {runs}" if value == value else "" for value, runs in row] for row in pairs],
        customdata=found.runs,
        texttemplate="%{text}",
        xgap=2,
        ygap=2,
        hoverongaps=False,
        colorbar={
            "thickness": 10,
            "outlinewidth": 0,
            "tickvals": [-1, 0, 1],
            "tickfont": {"color": palette.muted, "size": 11},
        },
        hovertemplate="<b>%{y}</b> and %{x}<br>rank correlation %{z:+.2f}<br>of %{customdata} runs<extra></extra>",
    )
    figure.update_layout(
        height=bars_height(len(fields)) + 30,
        xaxis={"type": "category", "side": "bottom", "showgrid": False},
        yaxis={"autorange": "reversed", "type": "category", "automargin": True, "showgrid": False},
    )
    return figure


#: Where values that are not finite stand: above all others.
_OFF: Final = 1.09
#: Ratio between largest and smallest from which an axis of positive numbers is logarithmic.
_DECADES: Final = 30.0
_LABELS: Final = 8
_CLASSES: Final = 4
_HEIGHT: Final = 380


@dataclass(frozen=True, slots=True)
class ParallelAxis:
    """One axis.

    Args:
        positions: For every run 0 to 1, above 1 what is not finite, None where the run has no value.
        ticks: (position, label).
    """

    name: str
    positions: tuple[float | None, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that are drawn alike, with the words that say which they are."""

    name: str
    members: tuple[int, ...]


def parallel_axis(name: str, values: Sequence[Json]) -> ParallelAxis:
    """Build the axis of a field: numbers along their range, on a log scale where it is wide; words evenly spaced."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return _numbers(name, [None if value is None else float(value) for value in values])  # type: ignore[arg-type]  # numbers, by the line above
    words = sorted({str(value) for value in there})
    where = {word: at / max(1, len(words) - 1) if len(words) > 1 else 0.5 for at, word in enumerate(words)}
    every = -(-len(words) // _LABELS) if words else 1
    ticks = tuple((where[word], short_site(word, 10)) for word in words[::every])
    return ParallelAxis(name, tuple(None if value is None else where[str(value)] for value in values), ticks)


def _numbers(name: str, values: Sequence[float | None]) -> ParallelAxis:
    finite = [value for value in values if value is not None and isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    is_log = low > 0.0 and high / low >= _DECADES
    ends = (log10(low), log10(high)) if is_log else (low, high)

    def position(value: float | None) -> float | None:
        if value is None:
            return None
        if not isfinite(value):
            return _OFF
        at = log10(value) if is_log else value
        return (at - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 0.5

    middle = (ends[0] + ends[1]) / 2
    shown = (low, 10**middle if is_log else middle, high) if high > low else (low,)
    ticks = tuple((float(position(value) or 0.0), number(value, 3)) for value in shown) if finite else ()
    if any(value is not None and not isfinite(value) for value in values):
        ticks = (*ticks, (_OFF, "not finite"))
    return ParallelAxis(name, tuple(map(position, values)), ticks)


def run_groups(results: Sequence[float]) -> tuple[RunGroup, ...]:
    """Group the runs by quarters of their results, smallest first; then those without a finite one.

    Args:
        results: One a run; NaN for none.
    """
    order = sorted((at for at, value in enumerate(results) if isfinite(value)), key=lambda at: results[at])
    size = -(-len(order) // _CLASSES) if order else 1
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    named = [
        RunGroup(f"{number(results[part[0]], 3)} to {number(results[part[-1]], 3)}", tuple(part))
        for part in parts
        if part
    ]
    rest = tuple(at for at, value in enumerate(results) if not isfinite(value))
    return (*named, RunGroup("no finite result", rest)) if rest else tuple(named)


def parallel_figure(
    scales: Sequence[ParallelAxis],
    bundles: Sequence[RunGroup],
    names: Sequence[str],
    palette: Palette,
    *,
    chosen: int | None = None,
) -> go.Figure:
    """Draw one line per run, in the colour of its group.

    Args:
        names: Of the runs.
        chosen: The run that is drawn thick.
    """
    figure = go.Figure(layout={"template": template(palette)})
    colors = [color for _, color in palette.sequential[-_CLASSES:]][-len(bundles) :]
    for bundle, color in zip(bundles, [*colors, *[palette.non_finite] * len(bundles)], strict=False):
        is_rest = bundle.name == "no finite result"
        _add(figure, scales, bundle, names, palette.non_finite if is_rest else color, is_rest=is_rest)
    if chosen is not None:
        _add(figure, scales, RunGroup(names[chosen], (chosen,)), names, palette.lines[1], width=3.5)
    for at, scale in enumerate(scales):
        figure.add_shape(
            type="line", x0=at, x1=at, y0=0, y1=1, line={"width": 1, "color": palette.muted}, layer="below"
        )
        for position, label in scale.ticks:
            figure.add_annotation(
                x=at,
                y=position,
                text=label,
                showarrow=False,
                xanchor="left",
                xshift=5,
                font={"size": 10.5, "color": palette.text},
                bgcolor=palette.surface,
                opacity=0.85,
            )
    figure.update_layout(
        showlegend=True,
        height=_HEIGHT,
        margin={"t": 40, "l": 24, "r": 70, "b": 44},
        xaxis={
            "tickvals": list(range(len(scales))),
            "ticktext": [short_site(scale.name, 22) for scale in scales],
            "range": [-0.08, len(scales) - 1],
            "showgrid": False,
            "fixedrange": True,
        },
        yaxis={"visible": False, "range": [-0.04, 1.15]},
    )
    return figure


def _add(
    figure: go.Figure,
    scales: Sequence[ParallelAxis],
    bundle: RunGroup,
    names: Sequence[str],
    color: str,
    *,
    width: float = 1.6,
    is_rest: bool = False,
) -> None:
    """Add all runs of a group as one trace, separated by gaps."""
    x: list[float | None] = []
    y: list[float | None] = []
    texts: list[str] = []
    for run in bundle.members:
        x += [*range(len(scales)), None]
        y += [*(scale.positions[run] for scale in scales), None]
        texts += [names[run]] * (len(scales) + 1)
    figure.add_scatter(
        x=x,
        y=y,
        text=texts,
        name=bundle.name,
        mode="lines+markers",
        cliponaxis=False,
        line={"width": width, "color": color, "dash": "dot" if is_rest else "solid"},
        marker={"size": 5, "symbol": "x" if is_rest else "circle"},
        hovertemplate="<b>%{text}</b><extra></extra>",
    )


#: Bars and columns that a screen has room for; our choice.
_BARS: Final = 12
_RESULTS: Final = 6


def parallel_of(
    rows: Sequence[Provenance], fields: Sequence[str], result: str | None, palette: Palette, *, chosen: str = ""
) -> go.Figure | None:
    """Draw one line for every run through its fields and the result; None with fewer than two runs or axes.

    Args:
        chosen: Id of the run that is drawn on top.
    """
    axes = [*fields, *([f"{RESULT}{result}"] if result else [])]
    if len(rows) < 2 or len(axes) < 2:
        return None
    scales = [parallel_axis(name, [row.fields.get(name) for row in rows]) for name in axes]
    numbers = [row.number(axes[-1]) if result else float("nan") for row in rows]
    names = [str(row.fields.get("name") or row.run) for row in rows]
    at = next((number for number, row in enumerate(rows) if row.run == chosen), None)
    return parallel_figure(scales, run_groups(numbers), names, palette, chosen=at)


def importance_of(rows: Sequence[Provenance], result: str | None, palette: Palette) -> go.Figure | None:
    """Draw what the result depends on; None where too few runs have it, or differ."""
    found = importance(rows, result)[:_BARS] if result else ()
    return importance_figure(found, palette) if found else None


def correlation_of(
    rows: Sequence[Provenance], fields: Sequence[str], result: str | None, palette: Palette
) -> go.Figure | None:
    """Rank correlations of the fields that are numbers, with this result first; None where none is known."""
    numeric = [name for name in fields if is_numeric(rows, name)]
    known = list(dict.fromkeys([*([result] if result else []), *results_of(rows)]))[:_RESULTS]
    found = correlations(rows, numeric, [f"{RESULT}{name}" for name in known])
    is_known = (found.values == found.values).any(axis=1)
    names = [name for name, is_defined in zip(numeric, is_known, strict=True) if is_defined]
    shown = Correlations(found.values[is_known], found.runs[is_known])
    return correlation_figure(names, known, shown, palette) if names else None
