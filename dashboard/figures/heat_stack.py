"""Several layer x step maps over one axis of steps, so that they are zoomed together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ..spans import Span
from ..theme import Palette, template
from .heatmap import Heat, heat_height, heat_traces, site_axis

#: Pixels of one map among several: every row can be told, and three maps fit a screen under cards and curve.
_ROW_HEIGHT: Final = 5
_LOWEST, _HIGHEST = 130, 300
_TITLE, _FOOT = 24, 44


@dataclass(frozen=True, slots=True, eq=False)
class NamedHeat:
    """A map with the metric that it shows."""

    metric: str
    heat: Heat


def stack_heights(rows: Sequence[int]) -> list[int]:
    """Pixels of each of several maps of so many rows; a single one gets as much as a screen bears."""
    if len(rows) == 1:
        return [heat_height(rows[0]) - _FOOT]
    return [int(np.clip(amount * _ROW_HEIGHT, _LOWEST, _HIGHEST)) for amount in rows]


def heat_stack(
    maps: Sequence[NamedHeat],
    palette: Palette,
    *,
    selected: tuple[str, int] | None = None,
    span: Span | None = None,
) -> go.Figure:
    """The maps under each other, their metrics above them, the selected place framed in each map that has it."""
    heights = stack_heights([len(one.heat.sites) for one in maps])
    total = sum(heights) + _TITLE * len(maps)
    figure = go.Figure(layout={"template": template(palette)})
    top = total
    for index, (one, height) in enumerate(zip(maps, heights, strict=True)):
        axis = "y" if index == 0 else f"y{index + 1}"
        top -= _TITLE
        domain = [(top - height) / total, top / total]
        _add_map(figure, one, palette, axis, domain, height)
        _frame(figure, one.heat, selected, palette, axis)
        top -= height
    figure.update_layout(
        height=total + _FOOT,
        uirevision=f"{[one.metric for one in maps]} {span}",
        margin={"l": 8, "r": 8, "t": 0, "b": _FOOT},
        xaxis={
            "title": "step",
            "showgrid": False,
            "anchor": "y" if len(maps) < 2 else f"y{len(maps)}",
            "range": list(span) if span else None,
        },
    )
    return figure


def _add_map(figure: go.Figure, one: NamedHeat, palette: Palette, axis: str, domain: list[float], height: int) -> None:
    middle, share = sum(domain) / 2, domain[1] - domain[0]
    for trace in heat_traces(one.heat, palette, axis=axis, bar={"y": middle, "len": share, "lenmode": "fraction"}):
        trace.meta = {"metric": one.metric}
        figure.add_trace(trace)
    figure.update_layout({axis.replace("y", "yaxis"): {**site_axis(one.heat.sites, height), "domain": domain}})
    figure.add_annotation(
        text=one.metric,
        xref="paper",
        yref="paper",
        x=0,
        y=domain[1],
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        font={"color": palette.muted, "size": 12},
    )


def _frame(figure: go.Figure, heat: Heat, selected: tuple[str, int] | None, palette: Palette, axis: str) -> None:
    if selected is None or selected[0] not in heat.sites:
        return
    row, line = heat.sites.index(selected[0]), {"width": 1, "color": palette.text}
    figure.add_shape(type="rect", xref="paper", x0=0, x1=1, yref=axis, y0=row - 0.5, y1=row + 0.5, line=line)
    figure.add_shape(
        type="line", x0=selected[1], x1=selected[1], yref="paper", y0=0, y1=1, line={**line, "dash": "dot"}
    )
