"""The passes of the optimiser: each a function from a graph to a new one that computes the same."""

from .algebra import simplify
from .common_subexpression import share_common
from .constant_fold import fold_constants
from .expand import expand
from .inline import inline
from .marks import drop_marks
from .pooling import pool_first
from .recompute import recompute
from .schedule import schedule

__all__ = [
    "drop_marks",
    "expand",
    "fold_constants",
    "inline",
    "pool_first",
    "recompute",
    "schedule",
    "share_common",
    "simplify",
]
