"""Norms of matrices, and least squares by the pseudo-inverse.

Reference:
    Golub and Pereyra 1973, "The differentiation of pseudo-inverses", eq. 4.12.
"""

from collections.abc import Sequence

import numpy as np

from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Tensor, method
from .arithmetic import abs, add, subtract
from .lapack import adjoint, lapack
from .linalg import matmul
from .operands import as_floating, pair
from .reduce import max, min, sum
from .spectral import eye_like, svdvals
from .statistics import l2_norm, vector_norm


def _pinv_rule(g: Tensor, out: Tensor, x: Tensor, *, rcond: float) -> Tensor:
    p, turned, of_adjoint = out, adjoint(out), adjoint(g)
    direct = matmul(matmul(turned, g), turned)
    left = subtract(eye_like(x, x.shape[-2]), matmul(x, p))
    right = subtract(eye_like(x, x.shape[-1]), matmul(p, x))
    rest = add(
        matmul(matmul(left, of_adjoint), matmul(p, turned)), matmul(matmul(turned, p), matmul(of_adjoint, right))
    )
    return subtract(rest, direct)


_pinv: Primitive = Primitive(
    "pinv",
    lapack(lambda x, *, rcond: np.linalg.pinv(x, rcond)),
    lambda x, **_: Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype),
    (_pinv_rule,),
    saves_output=True,
)


@method
def pinv(x: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverses `(..., n, m)` of matrices `(..., m, n)`.

    Args:
        x: Matrices; the gradient is that at constant rank.
        rcond: Singular values below this share of the largest count as 0.
    """
    return _pinv(as_floating(x), rcond=float(rcond))


@method
def lstsq(a: Tensor, b: Tensor) -> Tensor:
    """The shortest `x` that makes `|a x - b|` smallest, for `a` `(..., m, n)` and `b` `(..., m, k)` or `(m)`."""
    a, b = pair(as_floating(a), as_floating(b))
    return matmul(pinv(a), b)


@method
def matrix_norm(x: Tensor, order: float | str = "fro", keepdims: bool = False) -> Tensor:
    """The norm of matrices `(..., m, n)`.

    Args:
        x: Real for the norms of singular values.
        order: "fro", "nuc" (sum of the singular values), 2 and -2 (largest and smallest singular value), 1 and -1
            (sums of columns), infinity and minus infinity (sums of rows).
        keepdims: Whether the two axes stay, of length 1.
    """
    x = as_floating(x)
    if order == "fro":
        return l2_norm(x, (-2, -1), keepdims)
    if order in ("nuc", 2, -2):
        values = svdvals(x)
        found = sum(values, -1) if order == "nuc" else values[..., 0 if order == 2 else -1]
    elif order in (1, -1, float("inf"), float("-inf")):
        sums = sum(abs(x), -2 if order in (1, -1) else -1)
        found = max(sums, -1) if order in (1, float("inf")) else min(sums, -1)
    else:
        raise ValueError(f"no matrix norm of order {order!r}; use 'fro', 'nuc', 1, -1, 2, -2 or an infinity")
    return found.reshape(*found.shape, 1, 1) if keepdims else found


@method
def norm(
    x: Tensor, order: float | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """The norm of vectors (one axis, or all elements without an order) or matrices (two axes).

    Args:
        x: Any tensor.
        order: As of `vector_norm` or `matrix_norm`; the Euclidean (Frobenius) norm by default.
        axis: One axis or two; None for all.
        keepdims: Whether the axes stay, of length 1.
    """
    if order is None or (isinstance(order, int | float) and (isinstance(axis, int) or (axis is None and x.ndim == 1))):
        return vector_norm(x, 2.0 if order is None else float(order), axis, keepdims)
    places = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if len(places) != 2:
        raise ShapeError(f"a norm of order {order!r} expects one axis or two, got {axis} of shape {x.shape}")
    first, second = (place % x.ndim for place in places)
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    found = matrix_norm(x.transpose(*rest, first, second), order)
    if not keepdims:
        return found
    return found.reshape(tuple(1 if i in (first, second) else length for i, length in enumerate(x.shape)))
