"""The backend of NumPy and numba: planned buffers, fused kernels, straight-line code."""

from .executable import compile_graph

__all__ = ["compile_graph"]
