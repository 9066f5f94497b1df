"""Which rows of a layer by step map are shown, in which order, and each layer as a small figure of its own."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from ....storage import display_site
from ...address import Span
from ...figures.heatmap_figure import HeatmapData
from ...formatting import short_site
from ...theme import Palette, faint, template


def matching_rows(heat: HeatmapData, globs: str) -> list[int]:
    """Return the rows whose site matches one of the globs or contains one of the words, in model order.

    Args:
        globs: Separated by commas or blanks, words without `*`, `?` and `[` being parts of sites; empty matches all.
    """
    return [row for row, site in enumerate(heat.sites) if _matches(display_site(site), globs)]


def most_unusual_first(rows: Sequence[int], heat: HeatmapData, deviations: NDArray[np.float64]) -> list[int]:
    """Sort the rows by how unusual they ever were.

    Args:
        deviations: `(sites, columns)`, how far each cell of the map is from its row's own history.
    """
    worth = scores(heat, deviations)
    return sorted(rows, key=lambda row: -worth[row])


def scores(heat: HeatmapData, deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `(sites,)` how unusual each row ever was: its largest deviation, infinite where a value was not finite."""
    largest = np.nanmax(np.abs(deviations), axis=1, initial=0.0, where=np.isfinite(deviations))
    return np.where(heat.non_finite.any(axis=1), np.inf, largest)


def _matches(site: str, globs: str) -> bool:
    wanted = globs.replace(",", " ").split()
    return not wanted or any(fnmatchcase(site, glob) if set("*?[") & set(glob) else glob in site for glob in wanted)


def with_rows(heat: HeatmapData, rows: Sequence[int]) -> HeatmapData:
    """Return the map of these rows alone, in this order."""
    keep = list(rows)
    return replace(
        heat,
        sites=tuple(heat.sites[row] for row in keep),
        z=heat.z[keep],
        low=heat.low[keep],
        high=heat.high[keep],
        non_finite=heat.non_finite[keep],
    )


#: More small figures than this are no overview.
MOST: Final = 24
_COLUMNS: Final = 4
_ROW_PIXELS: Final = 132


def small_multiples(
    metric: str, heat: HeatmapData, palette: Palette, *, log: bool = False, span: Span | None = None
) -> go.Figure:
    """Draw the range of the first `MOST` rows over the steps; non-finite values are marks on top."""
    shown = min(MOST, len(heat.sites))
    rows = max(1, -(-shown // _COLUMNS))
    titles = [short_site(display_site(site), 30) for site in heat.sites[:shown]]
    figure = make_subplots(
        rows=rows,
        cols=_COLUMNS,
        shared_xaxes="all",
        subplot_titles=titles,
        horizontal_spacing=0.05,
        vertical_spacing=min(0.5, 0.4 / rows),
    )
    for index in range(shown):
        cell = {"row": index // _COLUMNS + 1, "col": index % _COLUMNS + 1}
        for trace in _traces(heat, index, palette, log):
            trace.meta = {"metric": metric, "site": display_site(heat.sites[index])}
            figure.add_trace(trace, **cell)
    figure.update_annotations(font={"size": 10, "color": palette.muted})
    figure.update_layout(
        template=template(palette), showlegend=False, height=rows * _ROW_PIXELS + 40, uirevision=f"small {span}"
    )
    figure.update_xaxes(range=list(span) if span else None, showgrid=False)
    figure.update_yaxes(type="log" if log else "linear", nticks=4, tickfont={"size": 9})
    return figure


def _traces(heat: HeatmapData, index: int, palette: Palette, log: bool) -> list[go.Scatter]:
    low, high = (_drawable(values[index], log) for values in (heat.low, heat.high))
    steps, color = heat.steps.tolist(), palette.lines[0]
    site = display_site(heat.sites[index])
    line = {"color": color, "width": 1.2}
    hover = f"<b>{site}</b><br>from step %{{x}}<br>%{{y:.5g}}<extra></extra>"
    band = [
        go.Scatter(x=steps, y=low, mode="lines", line={**line, "width": 0.5}, hovertemplate=hover),
        go.Scatter(
            x=steps, y=high, mode="lines", line=line, fill="tonexty", fillcolor=faint(color), hovertemplate=hover
        ),
    ]
    broken = np.flatnonzero(heat.non_finite[index])
    if not broken.size:
        return band
    top = max((value for value in high if value is not None), default=1.0)
    mark = {"symbol": "x", "size": 5, "color": palette.non_finite}
    words = f"<b>{site}</b><br>from step %{{x}}<br><b>NaN or infinite</b><extra></extra>"
    marks = go.Scatter(
        x=heat.steps[broken].tolist(), y=[top] * broken.size, mode="markers", marker=mark, hovertemplate=words
    )
    return [*band, marks]


def _drawable(values: np.ndarray, log: bool) -> list[float | None]:
    is_drawn = np.isfinite(values) & ((values > 0) | (not log))
    return [value if ok else None for value, ok in zip(values.tolist(), is_drawn.tolist(), strict=True)]
