"""Operators of one's own: C++ kernels compiled here, and functions of numba or NumPy, registered as primitives."""

from .builder import CompileError, CustomOpBuilder
from .operator import custom_op

__all__ = ["CompileError", "CustomOpBuilder", "custom_op"]
