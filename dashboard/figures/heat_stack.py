"""Several layer x step maps over one axis of steps, so that they are zoomed together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ..spans import Span
from ..theme import Palette
from .drawing import Part, drawing
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
    traces: list[Part] = []
    axes: dict[str, object] = {}
    titles: list[Part] = []
    frames: list[Part] = []
    top = total
    for index, (one, height) in enumerate(zip(maps, heights, strict=True)):
        number = "" if index == 0 else str(index + 1)
        top -= _TITLE
        domain = [(top - height) / total, top / total]
        cells = _map(one, palette, f"y{number}", domain)
        traces += cells
        axes[f"yaxis{number}"] = {**site_axis(one.heat.sites, height), "domain": domain}
        titles.append(_title(one.metric, palette, domain[1], has_broken=len(cells) > 1))
        frames += _frame(one.heat, selected, palette, f"y{number}")
        top -= height
    steps = {"title": {"text": "step"}, "showgrid": False, "anchor": "y" if len(maps) < 2 else f"y{len(maps)}"}
    return drawing(
        traces,
        palette,
        **axes,
        height=total + _FOOT,
        uirevision=f"{[one.metric for one in maps]} {span}",
        margin={"l": 8, "r": 8, "t": 0, "b": _FOOT},
        annotations=titles,
        shapes=frames,
        xaxis={**steps, "range": list(span)} if span else steps,
    )


def _map(one: NamedHeat, palette: Palette, axis: str, domain: list[float]) -> list[Part]:
    bar = {"y": sum(domain) / 2, "len": domain[1] - domain[0], "lenmode": "fraction"}
    return [{**trace, "meta": {"metric": one.metric}} for trace in heat_traces(one.heat, palette, axis=axis, bar=bar)]


def _title(metric: str, palette: Palette, y: float, *, has_broken: bool) -> Part:
    """The metric above its map; where the map has a colour that is on no scale, what it stands for."""
    key = f' \u2002<span style="color:{palette.non_finite}">■</span> NaN or infinite' if has_broken else ""
    return {
        "text": f"{metric}{key}",
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": y,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": palette.muted, "size": 12},
    }


def _frame(heat: Heat, selected: tuple[str, int] | None, palette: Palette, axis: str) -> list[Part]:
    if selected is None or selected[0] not in heat.sites:
        return []
    row, line = heat.sites.index(selected[0]), {"width": 1, "color": palette.text}
    around = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": axis, "y0": row - 0.5, "y1": row + 0.5}
    across = {"type": "line", "x0": selected[1], "x1": selected[1], "yref": "paper", "y0": 0, "y1": 1}
    return [{**around, "line": line}, {**across, "line": {**line, "dash": "dot"}}]
