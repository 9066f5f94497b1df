"""Layers: cells with parameters, and the optimizers under the names that MindSpore gives them here."""

from ..optim import SGD, Adam, AdamW, AdamWeightDecay, Momentum
from .cell import Cell
from .container import CellList, SequentialCell
from .linear import Dense

__all__ = ["SGD", "Adam", "AdamW", "AdamWeightDecay", "Cell", "CellList", "Dense", "Momentum", "SequentialCell"]
