"""Several attacks at several budgets: what they leave of the accuracy, and whether to believe it."""

from ..symptom import Symptom
from .attack_plan import SUITES, Suite
from .evaluate import EvaluationProgress, evaluate
from .evaluation_report import WORST_CASE, Evaluation

__all__ = ["SUITES", "WORST_CASE", "Evaluation", "EvaluationProgress", "Suite", "Symptom", "evaluate"]
