"""What is searched: samples with budgets, when a candidate is adversarial, and the value that a search climbs."""

from .batch import Ascent, Gallery, Opening, Problem, ascent_at
from .criterion import Both, Criterion, Misclassification, Targeted
from .objective import Objective

__all__ = [
    "Ascent",
    "Both",
    "Criterion",
    "Gallery",
    "Misclassification",
    "Objective",
    "Opening",
    "Problem",
    "Targeted",
    "ascent_at",
]
