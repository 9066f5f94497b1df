"""Callbacks of `Model.train`: lines, checkpoints, an early end, learning rates, histories, summaries."""

from .callback import Callback, RunContext
from .control_callbacks import EarlyStopping, LearningRateScheduler, ModelCheckpoint, ReduceLROnPlateau
from .report_callbacks import History, LossMonitor, SummaryCollector, TimeMonitor

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
