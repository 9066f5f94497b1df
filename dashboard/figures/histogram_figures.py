"""The distribution of a tensor's values: at one step as bars, over the steps as a map."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...storage import Histogram
from ..formatting import number
from ..theme import Palette, template
from .series_figure import AxisValue

#: Our choice: from this ratio of the widest bin to the narrowest on, the narrow ones would be thinner than a pixel.
_UNEVEN: Final = 64.0
_LABELS: Final = 6


def is_uneven(edges: NDArray[np.float64]) -> bool:
    """Return whether finite bins of `(bins + 1,)` edges differ so much in width that a linear axis would hide some."""
    widths = np.diff(edges[np.isfinite(edges)])
    widths = widths[widths > 0]
    return widths.size > 1 and bool(widths.max() / widths.min() >= _UNEVEN)


def kept_edges(occupied: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return which of the `(bins + 1,)` edges remain when neighbouring empty bins are joined; the outer ones do."""
    keep = np.ones(occupied.size + 1, dtype=bool)
    keep[1:-1] = occupied[:-1] | occupied[1:]
    return np.flatnonzero(keep)


def edge_labels(edges: Sequence[float]) -> tuple[tuple[float, str], ...]:
    """Label some edges on an axis on which edge `i` stands at `i`; zero and the ends among them."""
    last = len(edges) - 1
    always = {0, last, *(at for at, edge in enumerate(edges) if edge == 0.0)}
    every = max(1, -(-last // _LABELS))
    some = {at for at in range(0, last, every) if all(abs(at - kept) > every / 2 for kept in always)}
    return tuple((float(at), number(edges[at], 2)) for at in sorted(some | always))


@dataclass(frozen=True, slots=True)
class HistogramBars:
    """One bar for every bin.

    Args:
        centers: Position of each bar; open bins get the width of their neighbour.
        labels: The range of each bar in words.
        open: Whether the bin reaches to infinity.
        marks: Positions and labels of edges if bars are equally wide; empty on an axis of values.
    """

    centers: tuple[float, ...]
    widths: tuple[float, ...]
    counts: tuple[int, ...]
    labels: tuple[str, ...]
    open: tuple[bool, ...]
    marks: tuple[tuple[float, str], ...] = ()


def bars_of(histogram: Histogram) -> HistogramBars:
    """Return the bars of a histogram; bins open to infinity are as wide as their neighbour.

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
    return HistogramBars(tuple(centers.tolist()), tuple(widths.tolist()), counts, labels, tuple(is_open.tolist()))


def _ordinal(histogram: Histogram) -> HistogramBars:
    keep = kept_edges(np.asarray(histogram.counts) > 0)
    edges = np.array(histogram.edges, dtype=np.float64)[keep]
    counts = np.add.reduceat(np.asarray(histogram.counts), keep[:-1]).tolist()
    return HistogramBars(
        centers=tuple(at + 0.5 for at in range(len(counts))),
        widths=(1.0,) * len(counts),
        counts=tuple(counts),
        labels=tuple(f"{number(low)} to {number(high)}" for low, high in pairwise(edges.tolist())),
        open=tuple((~np.isfinite(edges[:-1]) | ~np.isfinite(edges[1:])).tolist()),
        marks=edge_labels(edges.tolist()),
    )


def histogram_figure(bars: HistogramBars, palette: Palette) -> go.Figure:
    """Draw the bars; open ones are hatched."""
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


#: Rows of the map where the histograms have no edges in common, and the most that it has.
_ROWS: Final = 80
_MOST_ROWS: Final = 320


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Histograms on common edges.

    Args:
        edges: `(rows + 1,)` finite and ascending; the outermost rows include all values beyond.
        shares: `(rows, steps)`, share of the elements, 0 to 1; a column of NaN where nothing was counted.
    """

    steps: tuple[int, ...]
    edges: NDArray[np.float64]
    shares: NDArray[np.float64]


def distribution_of(recorded: Sequence[tuple[int, Histogram]]) -> Distribution:
    """Put histograms of several steps on common edges; spread each bin's elements evenly, and count every one.

    Of bins whose widths differ by magnitudes, empty ones beside each other become one.
    """
    edges = _common_edges([histogram for _, histogram in recorded])
    shares = np.stack([_on_edges(histogram, edges) for _, histogram in recorded], axis=1)
    if is_uneven(edges):
        keep = kept_edges(np.any(shares > 0, axis=1))
        edges, shares = edges[keep], np.add.reduceat(shares, keep[:-1], axis=0)
    return Distribution(tuple(step for step, _ in recorded), edges, shares)


def _common_edges(histograms: Sequence[Histogram]) -> NDArray[np.float64]:
    first = histograms[0].edges
    closed = [_closed(histogram.edges) for histogram in histograms]
    if all(np.array_equal(histogram.edges, first) for histogram in histograms):
        return closed[0]
    if any(is_uneven(edges) for edges in closed):  # edges that halve towards zero are the same but for whole octaves
        every = np.unique(np.concatenate(closed))
        if every.size <= _MOST_ROWS:
            return every
    low, high = min(edges[0] for edges in closed), max(edges[-1] for edges in closed)
    return np.linspace(low, high if high > low else low + 1.0, _ROWS + 1)


def _closed(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the edges with bins that reach to infinity as wide as their neighbours."""
    finite = edges[np.isfinite(edges)]
    width = float(np.diff(finite).min()) if finite.size > 1 else 1.0
    start, end = (float(finite[0]), float(finite[-1])) if finite.size else (0.0, 0.0)
    return np.where(np.isneginf(edges), start - width, np.where(np.isposinf(edges), end + width, edges))


def _on_edges(histogram: Histogram, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    total = histogram.counts.sum()
    if not total:
        return np.full(len(edges) - 1, np.nan)
    below = np.concatenate([[0.0], np.cumsum(histogram.counts) / total])
    return np.diff(np.interp(edges, _closed(histogram.edges), below))


def distribution_figure(
    distribution: Distribution, places: Sequence[AxisValue], palette: Palette, *, title: str
) -> go.Figure:
    """Draw the map on a logarithmic colour scale, so that tails show beside the bulk; empty bins stay empty."""
    with np.errstate(divide="ignore"):
        z = np.log10(distribution.shares)
    z[~np.isfinite(z)] = np.nan
    is_known = bool(np.isfinite(z).any())
    highest = float(np.nanmax(z)) if is_known else 0.0
    lowest = min(float(np.nanmin(z)) if is_known else -1.0, highest - 1.0)
    ticks = np.linspace(lowest, highest, 4)
    figure = go.Figure(layout={"template": template(palette)})
    rows, axis = _rows(distribution.edges)
    figure.add_heatmap(
        x=list(places),
        y=rows,
        z=z.astype(np.float32),
        customdata=np.broadcast_to(np.array(distribution.steps, dtype=np.float64), z.shape),
        zmin=lowest,
        zmax=highest,
        colorscale=[[position, color] for position, color in palette.sequential],
        hoverongaps=False,
        colorbar={
            "thickness": 8,
            "outlinewidth": 0,
            "len": 1.0,
            "tickvals": ticks.tolist(),
            "ticktext": [f"{10.0**tick:.2g}" for tick in ticks],
            "tickfont": {"size": 10, "color": palette.muted},
        },
        hovertemplate="step %{customdata}<br>%{y}<br>10^%{z:.2f} of the elements<extra></extra>",
    )
    figure.update_layout(xaxis={"title": title, "showgrid": False}, yaxis=axis)
    if len(set(places)) == 1:  # one column has no width of its own, and Plotly would mark fractions of a step
        figure.update_xaxes(tickvals=list(places))
    return figure


def _rows(edges: NDArray[np.float64]) -> tuple[list[float] | list[str], dict[str, object]]:
    """Place the rows and describe their axis: of values, or of bins where a linear one would hide some."""
    if not is_uneven(edges):
        return ((edges[:-1] + edges[1:]) / 2).tolist(), {"title": "value", "showgrid": False, "hoverformat": ".4g"}
    places, words = zip(*edge_labels(edges.tolist()), strict=True)
    return [f"{number(low)} to {number(high)}" for low, high in pairwise(edges.tolist())], {
        "title": "value, every bin as high",
        "type": "category",
        "showgrid": False,
        "automargin": True,
        "tickvals": [position - 0.5 for position in places],
        "ticktext": list(words),
    }
