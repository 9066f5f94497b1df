"""Several attacks at several budgets: what they leave of the accuracy, and whether to believe it."""

from ...storage.evaluation_verdict import WORST_CASE, Symptom
from .attack_plan import SUITES, Suite
from .evaluate import EvaluationProgress, evaluate
from .evaluation_report import Evaluation

__all__ = ["SUITES", "WORST_CASE", "Evaluation", "EvaluationProgress", "Suite", "Symptom", "evaluate"]
