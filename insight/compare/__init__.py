"""Two runs, or two ranks of one, side by side: where they part first, and in what they differ."""

from .against_reference import diagnose_against
from .align import Alignment, align
from .comparison import Comparison, compare
from .differences import Difference, differences
from .divergence import Divergence
from .report import comparison_to_json, render_comparison
from .tensors import DumpedPair, TensorDifference, compare_dumps, compare_tensors

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
