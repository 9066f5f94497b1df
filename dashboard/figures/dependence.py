"""What a result depends on: the importance of parameters as bars, correlations as a small map."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ...insight.lineage import Importance
from ..theme import Palette, template
from ..words import short_site

#: A share that came about by chance more often than this is drawn hatched: the usual bound of significance.
CHANCE: Final = 0.05
_LABEL: Final = 30


def bars_height(bars: int) -> int:
    """Pixels that so many bars need."""
    return int(np.clip(bars * 26 + 70, 130, 460))


def importance_figure(found: Sequence[Importance], palette: Palette) -> go.Figure:
    """Share of the result's variance by parameter, the largest first; hatched what may be chance."""
    figure = go.Figure(layout={"template": template(palette)})
    is_chance = [one.p_value > CHANCE for one in found]
    figure.add_bar(
        y=[short_site(one.field, _LABEL) for one in found],
        x=[one.share for one in found],
        orientation="h",
        text=[_words(one) for one in found],
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


def _words(one: Importance) -> str:
    ranked = "" if one.correlation != one.correlation else f", rank correlation {one.correlation:+.2f}"
    return f"p {one.p_value:.3f}{ranked}, {one.runs} runs"


def correlation_figure(
    fields: Sequence[str], results: Sequence[str], values: NDArray[np.float64], palette: Palette
) -> go.Figure:
    """Rank correlation of parameters with results; empty where too few runs have both.

    Args:
        values: `(fields, results)`, -1 to 1 or NaN.
    """
    figure = go.Figure(layout={"template": template(palette)})
    figure.add_heatmap(
        z=values,
        x=[short_site(name, 18) for name in results],
        y=[short_site(name, _LABEL) for name in fields],
        zmin=-1,
        zmax=1,
        colorscale=[list(stop) for stop in palette.diverging],
        text=[[f"{value:+.2f}" if value == value else "" for value in row] for row in values.tolist()],
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
        hovertemplate="<b>%{y}</b> and %{x}<br>rank correlation %{z:+.2f}<extra></extra>",
    )
    figure.update_layout(
        height=bars_height(len(fields)) + 30,
        xaxis={"type": "category", "side": "bottom", "showgrid": False},
        yaxis={"autorange": "reversed", "type": "category", "automargin": True, "showgrid": False},
    )
    return figure
