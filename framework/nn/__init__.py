"""Layers: cells with parameters, and the optimizers under the names that MindSpore gives them here."""

from ..optim import SGD, Adam, AdamW, AdamWeightDecay, Momentum
from .cell import Cell

__all__ = ["SGD", "Adam", "AdamW", "AdamWeightDecay", "Cell", "Momentum"]
