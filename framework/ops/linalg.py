"""Matrix products."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtype import NARROW
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec, matmul_shape
from ..tensor import Array, Tensor, method
from .operands import conjugate, pair
from .reduce import array_sum_to, sum_to


def _product(a: Array, b: Array) -> Any:
    """`a @ b`; 16-bit floats are multiplied in float32, which BLAS knows."""
    if a.dtype in NARROW:
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if b.ndim == 2 and a.ndim > 2:
        # One large product instead of a stack of small ones.
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b)


def _matmul_of_first(g: Tensor, _: None, a: Tensor, b: Tensor) -> Tensor:
    b = conjugate(b)
    if b.ndim == 1:
        return sum_to(g.reshape(*g.shape, 1) * b, a)
    if a.ndim == 1:
        g = g.reshape(*g.shape[:-1], 1, g.shape[-1])
        return sum_to(_matmul(g, b.swapaxes(-1, -2)), (1, a.shape[0])).reshape(a.shape)
    return sum_to(_matmul(g, b.swapaxes(-1, -2)), a)


def _matmul_of_second(g: Tensor, _: None, a: Tensor, b: Tensor) -> Tensor:
    a = conjugate(a)
    if a.ndim == 1:
        return sum_to(a.reshape(-1, 1) * g.reshape(*g.shape[:-1], 1, g.shape[-1]), b) if b.ndim > 1 else a * g
    if b.ndim == 1:
        return sum_to(a * g.reshape(*g.shape, 1), b)
    if b.ndim == 2 and a.ndim > 2:
        return _matmul(a.reshape(-1, a.shape[-1]).swapaxes(0, 1), g.reshape(-1, g.shape[-1]))
    return sum_to(_matmul(a.swapaxes(-1, -2), g), b)


def _matmul_eagerly(needs: Sequence[bool], g: Array, _: None, a: Array, b: Array) -> Any:
    if a.ndim != 2 or b.ndim != 2:
        return NotImplemented
    return (
        _matmul.evaluate(g, b.conjugate().T) if needs[0] else None,
        _matmul.evaluate(a.conjugate().T, g) if needs[1] else None,
    )


_matmul: Primitive = Primitive(
    "matmul",
    _product,
    lambda a, b: Spec(matmul_shape(a.shape, b.shape), a.dtype),
    (_matmul_of_first, _matmul_of_second),
    eager_vjp=_matmul_eagerly,
)


@method
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b`: vectors, matrices, and stacks of matrices that broadcast."""
    return _matmul(*pair(a, b))


def _linear_of(x: Array, weight: Array, bias: Array) -> Any:
    out = _product(x, weight.T)
    return np.add(out, bias, out=out)


def _infer_linear(x: Spec, weight: Spec, bias: Spec) -> Spec:
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[1] or bias.shape != weight.shape[:1]:
        raise ShapeError(
            f"linear expects input (..., features), weight (out, features) and bias (out), "
            f"got {x.shape}, {weight.shape} and {bias.shape}"
        )
    return Spec((*x.shape[:-1], weight.shape[0]), x.dtype)


_linear: Primitive = Primitive(
    "linear",
    _linear_of,
    _infer_linear,
    (
        lambda g, _, x, weight, bias: _matmul(g, conjugate(weight)),
        lambda g, _, x, weight, bias: _weight_gradient(g, x),
        lambda g, _, x, weight, bias: sum_to(g, bias),
    ),
    eager_vjp=lambda needs, g, _, x, weight, bias: (
        _matmul.evaluate(g, weight.conjugate()) if needs[0] else None,
        _matmul.evaluate(_stacked(g).T, _stacked(x).conjugate()) if needs[1] else None,
        array_sum_to(g, bias) if needs[2] else None,
    ),
)


def _stacked(x: Array) -> Array:
    """The rows of all matrices in one."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    rows = g if g.ndim == 2 else g.reshape(-1, g.shape[-1])
    features = conjugate(x) if x.ndim == 2 else conjugate(x).reshape(-1, x.shape[-1])
    return _matmul(rows.swapaxes(0, 1), features)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x weight^T + bias`, for an input `(..., features)`, a weight `(out, features)` and a bias `(out)`."""
    if bias is None:
        return matmul(x, weight.swapaxes(0, 1))
    x, weight = pair(x, weight)
    return _linear(x, weight, pair(x, bias)[1])
