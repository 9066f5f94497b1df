"""What the pages read, one module a family of pages; no other folder of the dashboard calls the store."""

from .axes import AXES, AxisName, axis_of
from .changes import annotate, delete, mute, tell, watch_for
from .evidence import Replay, change_before, muted, replay_condition, rules_run
from .neighbours import Neighbours, neighbours
from .outcomes import outcomes
from .reader import Reader
from .sparks import spark
from .tensor import (
    ELEMENT_COUNTS,
    broken_steps,
    calls,
    element_counts,
    histogram,
    histograms,
    statistics,
    whole_series,
)

__all__ = [
    "AXES",
    "ELEMENT_COUNTS",
    "AxisName",
    "Neighbours",
    "Reader",
    "Replay",
    "annotate",
    "axis_of",
    "broken_steps",
    "calls",
    "change_before",
    "delete",
    "element_counts",
    "histogram",
    "histograms",
    "mute",
    "muted",
    "neighbours",
    "outcomes",
    "replay_condition",
    "rules_run",
    "spark",
    "statistics",
    "tell",
    "watch_for",
    "whole_series",
]
