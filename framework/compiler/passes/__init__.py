"""The passes of the optimiser: each a function from a graph to a new one that computes the same."""

from .algebra import expand, pool_first, simplify
from .memory_passes import recompute, schedule
from .structural_passes import drop_marks, fold_constants, inline, share_common

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
