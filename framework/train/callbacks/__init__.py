"""Callbacks of `Model.train`: lines, checkpoints, an early end, learning rates, histories, summaries."""

from .callback import Callback, RunContext
from .checkpoint import ModelCheckpoint
from .control import EarlyStopping, LearningRateScheduler, ReduceLROnPlateau
from .monitor import History, LossMonitor, TimeMonitor
from .summary import SummaryCollector

__all__ = [
    "Callback",
    "EarlyStopping",
    "History",
    "LearningRateScheduler",
    "LossMonitor",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "RunContext",
    "SummaryCollector",
    "TimeMonitor",
]
