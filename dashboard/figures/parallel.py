"""Parallel coordinates: one line for every run through its parameters and its result, drawn as plain lines.

Plotly's own kind needs WebGL, drops runs with a gap and cannot show what is not finite.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log10
from typing import Final

import plotly.graph_objects as go

from ...storage import Json
from ..theme import Palette, template
from ..words import number, short_site

#: Where values that are not finite stand: above all others.
_OFF: Final = 1.09
#: Ratio between largest and smallest from which an axis of positive numbers is logarithmic.
_DECADES: Final = 30.0
_LABELS: Final = 8
_CLASSES: Final = 4
_HEIGHT: Final = 380


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis.

    Args:
        places: For every run 0 to 1, above 1 what is not finite, None where the run has no value.
        ticks: (place, label).
    """

    name: str
    places: tuple[float | None, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Runs that are drawn alike, with the words that say which they are."""

    name: str
    members: tuple[int, ...]


def scale_of(name: str, values: Sequence[Json]) -> Scale:
    """The axis of a field: numbers along their range, on a log scale where it is wide; words evenly, in their order."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return _numbers(name, [None if value is None else float(value) for value in values])  # type: ignore[arg-type]  # numbers, by the line above
    words = sorted({str(value) for value in there})
    where = {word: at / max(1, len(words) - 1) if len(words) > 1 else 0.5 for at, word in enumerate(words)}
    every = -(-len(words) // _LABELS) if words else 1
    ticks = tuple((where[word], short_site(word, 10)) for word in words[::every])
    return Scale(name, tuple(None if value is None else where[str(value)] for value in values), ticks)


def _numbers(name: str, values: Sequence[float | None]) -> Scale:
    finite = [value for value in values if value is not None and isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    is_log = low > 0.0 and high / low >= _DECADES
    ends = (log10(low), log10(high)) if is_log else (low, high)

    def place(value: float | None) -> float | None:
        if value is None:
            return None
        if not isfinite(value):
            return _OFF
        at = log10(value) if is_log else value
        return (at - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 0.5

    middle = (ends[0] + ends[1]) / 2
    shown = (low, 10**middle if is_log else middle, high) if high > low else (low,)
    ticks = tuple((float(place(value) or 0.0), number(value, 3)) for value in shown) if finite else ()
    if any(value is not None and not isfinite(value) for value in values):
        ticks = (*ticks, (_OFF, "not finite"))
    return Scale(name, tuple(map(place, values)), ticks)


def bundles_of(results: Sequence[float]) -> tuple[Bundle, ...]:
    """The runs by quarters of their results, smallest first; then those without a finite one.

    Args:
        results: One a run; NaN for none.
    """
    order = sorted((at for at, value in enumerate(results) if isfinite(value)), key=lambda at: results[at])
    size = -(-len(order) // _CLASSES) if order else 1
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    named = [
        Bundle(f"{number(results[part[0]], 3)} to {number(results[part[-1]], 3)}", tuple(part))
        for part in parts
        if part
    ]
    rest = tuple(at for at, value in enumerate(results) if not isfinite(value))
    return (*named, Bundle("no finite result", rest)) if rest else tuple(named)


def parallel_figure(
    scales: Sequence[Scale],
    bundles: Sequence[Bundle],
    names: Sequence[str],
    palette: Palette,
    *,
    chosen: int | None = None,
) -> go.Figure:
    """One line a run, in the colour of its bundle.

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
        _add(figure, scales, Bundle(names[chosen], (chosen,)), names, palette.lines[1], width=3.5)
    for at, scale in enumerate(scales):
        figure.add_shape(
            type="line", x0=at, x1=at, y0=0, y1=1, line={"width": 1, "color": palette.muted}, layer="below"
        )
        for place, label in scale.ticks:
            figure.add_annotation(
                x=at,
                y=place,
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
    scales: Sequence[Scale],
    bundle: Bundle,
    names: Sequence[str],
    color: str,
    *,
    width: float = 1.6,
    is_rest: bool = False,
) -> None:
    """All runs of a bundle as one trace: a gap parts them."""
    x: list[float | None] = []
    y: list[float | None] = []
    texts: list[str] = []
    for run in bundle.members:
        x += [*range(len(scales)), None]
        y += [*(scale.places[run] for scale in scales), None]
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
