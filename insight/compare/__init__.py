"""Compares two runs, or two ranks of one: where they diverge first, and which settings differ."""

from .dumped_tensors import DumpedPair, TensorDifference, compare_dumps, compare_tensors
from .noise import Divergence
from .pairing import Alignment, align
from .reference_run import diagnose_against
from .run_comparison import Comparison, compare, comparison_to_json, render_comparison
from .setting_differences import Difference, differences

__all__ = [
    "Alignment",
    "Comparison",
    "Difference",
    "Divergence",
    "DumpedPair",
    "TensorDifference",
    "align",
    "compare",
    "compare_dumps",
    "compare_tensors",
    "comparison_to_json",
    "diagnose_against",
    "differences",
    "render_comparison",
]
