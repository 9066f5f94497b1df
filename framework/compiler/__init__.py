"""From Python functions to graphs, from graphs to faster graphs, and to something that runs."""

from .jit import jit
from .observers import observe_cells
from .traced import CaptureError

__all__ = ["CaptureError", "jit", "observe_cells"]
