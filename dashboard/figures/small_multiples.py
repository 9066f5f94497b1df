"""One small picture for every layer, side by side, each on its own scale."""

from typing import Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ...storage import display_site
from ..spans import Span
from ..theme import Palette, template
from ..words import short_site
from .band import faint
from .heatmap import Heat

#: More small pictures than this are no overview.
MOST: Final = 24
_COLUMNS: Final = 4
_ROW_PIXELS: Final = 132


def small_multiples(
    metric: str, heat: Heat, palette: Palette, *, log: bool = False, span: Span | None = None
) -> go.Figure:
    """The range of each row over the steps, the first `MOST` of them; what is not finite stands as a mark on top."""
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
        place = {"row": index // _COLUMNS + 1, "col": index % _COLUMNS + 1}
        for trace in _traces(heat, index, palette, log):
            trace.meta = {"metric": metric, "site": display_site(heat.sites[index])}
            figure.add_trace(trace, **place)
    figure.update_annotations(font={"size": 10, "color": palette.muted})
    figure.update_layout(
        template=template(palette), showlegend=False, height=rows * _ROW_PIXELS + 40, uirevision=f"small {span}"
    )
    figure.update_xaxes(range=list(span) if span else None, showgrid=False)
    figure.update_yaxes(type="log" if log else "linear", nticks=4, tickfont={"size": 9})
    return figure


def _traces(heat: Heat, index: int, palette: Palette, log: bool) -> list[go.Scatter]:
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
