"""Several attacks at several budgets: what they leave of the accuracy, and whether to believe it."""

from .evaluate import EvaluationProgress, evaluate
from .masking import Symptom
from .report import WORST_CASE, Evaluation
from .suites import SUITES, Suite

__all__ = ["SUITES", "WORST_CASE", "Evaluation", "EvaluationProgress", "Suite", "Symptom", "evaluate"]
