"""Writing models: one table from primitives to ONNX nodes, and the walk over a captured graph that uses it."""

from .exporter import export
from .model_builder import WRITERS, writer

__all__ = ["WRITERS", "export", "writer"]
