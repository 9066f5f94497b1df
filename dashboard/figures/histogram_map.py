"""The distribution of a tensor's values over the steps, as a map: bin x step, coloured by the share of elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...storage import Histogram
from ..theme import Palette, template
from ..words import number
from .bin_axis import edge_labels, is_uneven, kept_edges
from .held import Place

#: Rows of the map where the histograms have no edges in common, and the most that it has.
_ROWS: Final = 80
_MOST_ROWS: Final = 320


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Histograms on common edges.

    Args:
        edges: `(rows + 1,)` finite and ascending; the outermost rows hold what lies beyond as well.
        shares: `(rows, steps)`, share of the elements, 0 to 1; a column of NaN where nothing was counted.
    """

    steps: tuple[int, ...]
    edges: NDArray[np.float64]
    shares: NDArray[np.float64]


def distribution_of(recorded: Sequence[tuple[int, Histogram]]) -> Distribution:
    """Histograms of several steps on common edges; every element stays counted, inside of a bin spread evenly.

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
    closed = [_closed(one.edges) for one in histograms]
    if all(np.array_equal(one.edges, first) for one in histograms):
        return closed[0]
    if any(is_uneven(one) for one in closed):  # edges that halve towards zero are the same but for whole octaves
        every = np.unique(np.concatenate(closed))
        if every.size <= _MOST_ROWS:
            return every
    low, high = min(one[0] for one in closed), max(one[-1] for one in closed)
    return np.linspace(low, high if high > low else low + 1.0, _ROWS + 1)


def _closed(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The edges with bins that reach to infinity as wide as their neighbours."""
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
    distribution: Distribution, places: Sequence[Place], palette: Palette, *, title: str
) -> go.Figure:
    """The map on a logarithmic scale of colours, so that the tails are seen beside the bulk; empty bins stay empty."""
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
        colorscale=[[place, color] for place, color in palette.sequential],
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
    """Where the rows stand, and their axis: of values, or of bins by their range where a linear one would hide some."""
    if not is_uneven(edges):
        return ((edges[:-1] + edges[1:]) / 2).tolist(), {"title": "value", "showgrid": False, "hoverformat": ".4g"}
    places, words = zip(*edge_labels(edges.tolist()), strict=True)
    return [f"{number(low)} to {number(high)}" for low, high in pairwise(edges.tolist())], {
        "title": "value, every bin as high",
        "type": "category",
        "showgrid": False,
        "automargin": True,
        "tickvals": [place - 0.5 for place in places],
        "ticktext": list(words),
    }
