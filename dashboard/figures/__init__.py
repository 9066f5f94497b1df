"""Arrays in, `go.Figure` out: first a small tuple that holds what is drawn, then the figure; no store, no callback."""

from .band import Edge, band_figure
from .curve import LINE_TRACE, MARK_TRACE, Flag, curve_figure, flags_of
from .heat_stack import NamedHeat, heat_stack
from .heatmap import Heat, View, from_step, heat_height, heat_of, with_elements
from .held import Level, Place, Track, held_figure
from .histogram import Bars, bars_of, histogram_figure
from .histogram_map import distribution_figure, distribution_of
from .points import MARKS, Points, points_of
from .robustness import AttackLine, attack_lines, robustness_figure
from .rows import matching_rows, most_unusual_first, scores, with_rows
from .small_multiples import MOST, small_multiples

__all__ = [
    "LINE_TRACE",
    "MARKS",
    "MARK_TRACE",
    "MOST",
    "AttackLine",
    "Bars",
    "Edge",
    "Flag",
    "Heat",
    "Level",
    "NamedHeat",
    "Place",
    "Points",
    "Track",
    "View",
    "attack_lines",
    "band_figure",
    "bars_of",
    "curve_figure",
    "distribution_figure",
    "distribution_of",
    "flags_of",
    "from_step",
    "heat_height",
    "heat_of",
    "heat_stack",
    "held_figure",
    "histogram_figure",
    "matching_rows",
    "most_unusual_first",
    "points_of",
    "robustness_figure",
    "scores",
    "small_multiples",
    "with_elements",
    "with_rows",
]
