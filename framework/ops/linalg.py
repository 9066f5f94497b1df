"""Matrix products."""

from typing import Any

import numpy as np

from ..dtype import bfloat16, float16
from ..primitive import Primitive
from ..shape import Spec, matmul_shape
from ..tensor import Array, Tensor, method
from .operands import pair
from .reduce import sum_to

_NARROW = frozenset({float16, bfloat16})


def _product(a: Array, b: Array) -> Any:
    """`a @ b`; 16-bit floats are multiplied in float32, which BLAS knows."""
    if a.dtype in _NARROW:
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if b.ndim == 2 and a.ndim > 2:
        # One large product instead of a stack of small ones.
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b)


def _matmul_of_first(g: Tensor, _: None, a: Tensor, b: Tensor) -> Tensor:
    if b.ndim == 1:
        return sum_to(g.reshape(*g.shape, 1) * b, a)
    if a.ndim == 1:
        g = g.reshape(*g.shape[:-1], 1, g.shape[-1])
        return sum_to(_matmul(g, b.swapaxes(-1, -2)), (1, a.shape[0])).reshape(a.shape)
    return sum_to(_matmul(g, b.swapaxes(-1, -2)), a)


def _matmul_of_second(g: Tensor, _: None, a: Tensor, b: Tensor) -> Tensor:
    if a.ndim == 1:
        return sum_to(a.reshape(-1, 1) * g.reshape(*g.shape[:-1], 1, g.shape[-1]), b) if b.ndim > 1 else a * g
    if b.ndim == 1:
        return sum_to(a * g.reshape(*g.shape, 1), b)
    if b.ndim == 2 and a.ndim > 2:
        return _matmul(a.reshape(-1, a.shape[-1]).swapaxes(0, 1), g.reshape(-1, g.shape[-1]))  # type: ignore[no-any-return]
    return sum_to(_matmul(a.swapaxes(-1, -2), g), b)


_matmul = Primitive(
    "matmul",
    _product,
    lambda a, b: Spec(matmul_shape(a.shape, b.shape), a.dtype),
    (_matmul_of_first, _matmul_of_second),
)


@method
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b`: vectors, matrices, and stacks of matrices that broadcast."""
    return _matmul(*pair(a, b))  # type: ignore[no-any-return]
