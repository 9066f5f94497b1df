"""Training: the step that a loop repeats, and the state to resume it from."""

from .state import load_training_state, save_training_state
from .step import TrainStep

__all__ = ["TrainStep", "load_training_state", "save_training_state"]
