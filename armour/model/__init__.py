"""Models as attacks see them: logits, gradients and confidences of inputs within bounds, in any framework."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from .classifier import Asks, Network, Normalization, WrappedModel
from .dense_task import Segmentation, Tokens
from .detection_task import Detection
from .features import Features
from .query_budget import QueryBudget
from .task import MultiLabel, Regression, Task
from .wrapping import network_of, wrap, wrap_tokens, wrapped_for

__all__ = [
    "Asks",
    "Detection",
    "Features",
    "MultiLabel",
    "Network",
    "Normalization",
    "QueryBudget",
    "Regression",
    "Segmentation",
    "Task",
    "Tokens",
    "WrappedModel",
    "network_of",
    "wrap",
    "wrap_tokens",
    "wrapped_for",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Model": "WrappedModel"})
