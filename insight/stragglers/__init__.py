"""Who keeps a job of many ranks waiting, and what it costs: from traces, or from what a watched run has recorded.

Start reading in `straggler_report.py`; `step_graph.py` has the model that both sources become.
"""

from .attribution import Attribution, Suspect, attribute
from .critical_path import CriticalPath, PathPart, PathPiece, critical_path, path_parts
from .replay import Replay
from .step_graph import Activity, StepGraph
from .step_timeline import Bar, step_timeline
from .store_graph import NotRecorded, store_graph
from .straggler_report import Culprit, StragglerReport, render_stragglers, stragglers
from .trace_graph import trace_graph

__all__ = [
    "Activity",
    "Attribution",
    "Bar",
    "CriticalPath",
    "Culprit",
    "NotRecorded",
    "PathPart",
    "PathPiece",
    "Replay",
    "StepGraph",
    "StragglerReport",
    "Suspect",
    "attribute",
    "critical_path",
    "path_parts",
    "render_stragglers",
    "step_timeline",
    "store_graph",
    "stragglers",
    "trace_graph",
]
