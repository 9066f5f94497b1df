"""Models as attacks see them: logits, gradients and confidences of inputs within bounds, in any framework."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from .classifier import Asks, Network, Normalization, WrappedModel
from .features import Features
from .query_budget import QueryBudget
from .task import MultiLabel, Regression, Segmentation, Task
from .wrapping import network_of, wrap

__all__ = [
    "Asks",
    "Features",
    "MultiLabel",
    "Network",
    "Normalization",
    "QueryBudget",
    "Regression",
    "Segmentation",
    "Task",
    "WrappedModel",
    "network_of",
    "wrap",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Model": "WrappedModel"})
