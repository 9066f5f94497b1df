"""Metrics: numbers about predictions, gathered over batches; `Model` takes them by name or as objects."""

from .accuracy import Accuracy, TopKCategoricalAccuracy
from .confusion import F1, ConfusionMatrix, Precision, Recall
from .error import MAE, MSE, Loss, Perplexity
from .metric import METRICS, Metric, metric_of
from .ranking import RocAuc

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
