"""Compiled kernels for loops."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .loops import Loop

__all__ = ["kernel_of"]


def kernel_of(loop: Loop, in_place: Mapping[int, int], layouts: Sequence[tuple[str, int]]) -> Callable[..., None]:
    """The loop compiled for contiguous arrays of these dtypes and numbers of axes."""
    from numba import types  # noqa: PLC0415 (numba takes longer to import than the rest of the engine)

    from .cache import kernel_from_source  # noqa: PLC0415

    signature: list[Any] = [types.Array(getattr(types, _name(dtype)), ndim, "C") for dtype, ndim in layouts]
    return kernel_from_source(loop.source(dict(in_place)), tuple(signature))


def _name(dtype: str) -> str:
    return "boolean" if dtype == "bool" else dtype
