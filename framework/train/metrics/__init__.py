"""Metrics: numbers about predictions, gathered over batches; `Model` takes them by name or as objects."""

from .classification_metrics import F1, Accuracy, ConfusionMatrix, Precision, Recall, RocAuc, TopKCategoricalAccuracy
from .error_metrics import MAE, MSE, Loss, Perplexity
from .metric import METRICS, Metric, metric_of

__all__ = [
    "F1",
    "MAE",
    "METRICS",
    "MSE",
    "Accuracy",
    "ConfusionMatrix",
    "Loss",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "RocAuc",
    "TopKCategoricalAccuracy",
    "metric_of",
]
