"""The distribution of one tensor's values at one step."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from ...storage import Histogram
from ..theme import Palette, template
from ..words import number
from .bin_axis import edge_labels, is_uneven, kept_edges


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar for every bin.

    Args:
        centers: Where each bar stands; open bins get the width of their neighbour.
        labels: The range of each bar in words.
        open: Whether the bin reaches to infinity.
        marks: Places and words of edges where each bar takes one place of the axis; empty on an axis of values.
    """

    centers: tuple[float, ...]
    widths: tuple[float, ...]
    counts: tuple[int, ...]
    labels: tuple[str, ...]
    open: tuple[bool, ...]
    marks: tuple[tuple[float, str], ...] = ()


def bars_of(histogram: Histogram) -> Bars:
    """The bars of a histogram; bins open to infinity are drawn as wide as the one beside them.

    Bins whose widths differ by magnitudes, as those that halve towards zero, are drawn equally wide, for a linear axis
    would hide most of them; of these, empty ones beside each other become one.
    """
    if is_uneven(histogram.edges):
        return _ordinal(histogram)
    edges = np.array(histogram.edges, dtype=np.float64)
    finite = edges[np.isfinite(edges)]
    width = float(np.diff(finite).min()) if finite.size > 1 else 1.0
    is_open = ~np.isfinite(edges[:-1]) | ~np.isfinite(edges[1:])
    start = float(finite[0]) if finite.size else 0.0
    end = float(finite[-1]) if finite.size else 0.0
    left = np.where(np.isneginf(edges[:-1]), start - width, edges[:-1])
    right = np.where(np.isposinf(edges[1:]), end + width, edges[1:])
    labels = tuple(f"{number(a)} to {number(b)}" for a, b in pairwise(edges.tolist()))
    centers, widths = (left + right) / 2, right - left
    counts = tuple(int(count) for count in histogram.counts)
    return Bars(tuple(centers.tolist()), tuple(widths.tolist()), counts, labels, tuple(is_open.tolist()))


def _ordinal(histogram: Histogram) -> Bars:
    keep = kept_edges(np.asarray(histogram.counts) > 0)
    edges = np.array(histogram.edges, dtype=np.float64)[keep]
    counts = np.add.reduceat(np.asarray(histogram.counts), keep[:-1]).tolist()
    return Bars(
        centers=tuple(at + 0.5 for at in range(len(counts))),
        widths=(1.0,) * len(counts),
        counts=tuple(counts),
        labels=tuple(f"{number(low)} to {number(high)}" for low, high in pairwise(edges.tolist())),
        open=tuple((~np.isfinite(edges[:-1]) | ~np.isfinite(edges[1:])).tolist()),
        marks=edge_labels(edges.tolist()),
    )


def histogram_figure(bars: Bars, palette: Palette) -> go.Figure:
    """The bars; open ones are hatched."""
    figure = go.Figure(layout={"template": template(palette)})
    figure.add_bar(
        x=list(bars.centers),
        y=list(bars.counts),
        width=list(bars.widths),
        customdata=list(bars.labels),
        marker={
            "color": palette.lines[0],
            "line": {"width": 0},
            "pattern": {"shape": ["/" if is_open else "" for is_open in bars.open]},
        },
        hovertemplate="%{customdata}<br><b>%{y:,} values</b><extra></extra>",
    )
    figure.update_layout(bargap=0, xaxis={"title": "value", "showgrid": False}, yaxis={"rangemode": "tozero"})
    if bars.marks:
        places, words = zip(*bars.marks, strict=True)
        figure.update_xaxes(title="value, every bin as wide", tickvals=list(places), ticktext=list(words))
    return figure
