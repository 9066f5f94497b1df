"""Several series over one axis: ranks or runs, told apart by colour and dash, one of them in front if wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ..theme import Palette
from .held import Track, held_figure
from .points import points_of

_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_BEHIND: Final = 0.35


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One series.

    Args:
        steps: `(n,)` int64.
        x: `(n,)` where each value stands: steps, seconds, tokens or epochs.
        values: `(n,)`; NaN and infinities become marks and break the line.
    """

    name: str
    steps: NDArray[np.int64]
    x: NDArray[np.float64]
    values: NDArray[np.float64]


def overlay_figure(
    lines: Sequence[Line],
    palette: Palette,
    *,
    title: str,
    axis: str = "step",
    chosen: str | None = None,
    log: bool = False,
) -> go.Figure:
    """The lines; where one is chosen the others stand back.

    Args:
        chosen: Name of a line.
        log: A logarithmic value axis; what is not positive becomes a mark.
    """
    figure = held_figure([_track(line, log) for line in lines], palette, title=axis, log_y=log)
    places = {line.name: place for place, line in enumerate(lines)}
    for trace in figure.data:
        if trace.name in places:
            trace.line.dash = _DASHES[places[trace.name] % len(_DASHES)]
            trace.opacity = _BEHIND if chosen in places and trace.name != chosen else 1.0
    figure.update_layout(margin={"t": 36}, uirevision=f"{title} {axis}", showlegend=True, yaxis={"title": title})
    return figure


def _track(line: Line, log: bool) -> Track:
    points = points_of(line.steps, line.values, log=log)
    place_of = dict(zip(line.steps.tolist(), line.x.tolist(), strict=True))
    return Track(line.name, points, tuple(line.x.tolist()), tuple(place_of[step] for step in points.mark_x))
