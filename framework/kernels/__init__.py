"""Loops compiled by numba, for what NumPy would do in several passes.

Importing numba takes longer than the rest of the engine together, so a kernel module is loaded when the first primitive
that needs it runs: `kernels.softmax_kernels` below is an attribute that imports.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import (
        elementwise_kernels,
        exponential,
        normalization_kernels,
        pooling_kernels,
        recurrent_kernels,
        scatter,
        softmax_kernels,
        special_kernels,
        window_kernels,
    )

_MODULES = (
    "elementwise_kernels",
    "exponential",
    "normalization_kernels",
    "pooling_kernels",
    "recurrent_kernels",
    "scatter",
    "softmax_kernels",
    "special_kernels",
    "window_kernels",
)

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Return the kernel module of that name, imported now."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no kernels {name!r}; it has {', '.join(_MODULES)}")
    return import_module(f".{name}", __name__)
