"""Training: the step that a loop repeats, the loop itself, callbacks, metrics, and the state to resume it from."""

from . import callbacks, metrics
from .callbacks import Callback
from .metrics import Metric
from .model import Model
from .train_step import TrainStep
from .training_state import load_training_state, save_training_state

__all__ = [
    "Callback",
    "Metric",
    "Model",
    "TrainStep",
    "callbacks",
    "load_training_state",
    "metrics",
    "save_training_state",
]
