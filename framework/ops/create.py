"""Tensors made of one value or of numbers in a row."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..context import CAPTURE
from ..dtype import as_dtype
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..symbolic import is_static
from ..tensor import Tensor, method, wrap
from .reduce import broadcast_to

_full_like: Primitive = Primitive(
    "full_like",
    lambda x, *, value: np.full(x.shape, value, x.dtype),
    lambda x, *, value: x,
    NOT_DIFFERENTIABLE,
)


def _filled_like(x: Tensor, value: float) -> Tensor:
    """Return a tensor of the class of `x`; where something watches, through a primitive."""
    if x.__fallback__ is None and CAPTURE.get() is None:
        return wrap(np.full(x.shape, value, x.dtype))
    return _full_like(x, value=value)


def zeros(shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return a tensor of zeros."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return a tensor of ones."""
    return full(shape, 1, dtype)


@method
def zeros_like(x: Tensor) -> Tensor:
    """Return zeros of the same shape and dtype."""
    return _filled_like(x, 0)


@method
def ones_like(x: Tensor) -> Tensor:
    """Return ones of the same shape and dtype."""
    return _filled_like(x, 1)


def full(shape: Sequence[int], value: complex, dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return a tensor filled with one value; symbolic lengths are filled in when the compiled function runs."""
    kind = as_dtype(dtype)
    if is_static(shape):
        return wrap(np.full(tuple(shape), value, kind))
    return broadcast_to(wrap(np.asarray(value, kind)), shape)


def arange(*bounds: int, dtype: npt.DTypeLike = "int64") -> Tensor:
    """Return numbers from a start (0) up to an end, not included, by a step (1)."""
    return wrap(np.arange(*bounds, dtype=as_dtype(dtype)))
