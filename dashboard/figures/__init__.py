"""Arrays in, `go.Figure` out: first a small tuple that holds what is drawn, then the figure; no store, no callback."""

from .curve import LINE_TRACE, MARK_TRACE, Flag, curve_figure, flags_of
from .heatmap import Heat, View, heat_figure, heat_frame, heat_height, heat_of, with_elements
from .histogram import Bars, bars_of, histogram_figure
from .points import MARKS, Points, points_of
from .robustness import AttackLine, attack_lines, robustness_figure

__all__ = [
    "LINE_TRACE",
    "MARKS",
    "MARK_TRACE",
    "AttackLine",
    "Bars",
    "Flag",
    "Heat",
    "Points",
    "View",
    "attack_lines",
    "bars_of",
    "curve_figure",
    "flags_of",
    "heat_figure",
    "heat_frame",
    "heat_height",
    "heat_of",
    "histogram_figure",
    "points_of",
    "robustness_figure",
    "with_elements",
]
