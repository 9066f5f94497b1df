"""The problem of a search: samples with budgets, a criterion, and the objective to climb."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from .criterion import Both, Broken, Criterion, Misclassification, Targeted
from .objective import Objective
from .search_problem import Ascent, Gallery, InitialAscent, Problem, ascent_at

__all__ = [
    "Ascent",
    "Both",
    "Broken",
    "Criterion",
    "Gallery",
    "InitialAscent",
    "Misclassification",
    "Objective",
    "Problem",
    "Targeted",
    "ascent_at",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Opening": "InitialAscent"})
