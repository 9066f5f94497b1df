"""Determinants, their logarithms, and powers of matrices."""

from typing import Any

import numpy as np

from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Tensor, method, wrap
from .arithmetic import multiply
from .choose import where
from .lapack import adjoint, check_square, infer_square, lapack
from .linalg import matmul
from .operands import as_floating, as_real, conjugate
from .reduce import broadcast_to
from .solve import inv, inverse

_det: Primitive = Primitive(
    "det",
    lapack(np.linalg.det),
    lambda x: Spec(infer_square("det")(x).shape[:-2], x.dtype),
    (lambda g, out, x: multiply(multiply(g, conjugate(out)).reshape(*g.shape, 1, 1), adjoint(inverse(x))),),
    saves_output=True,
)


@method
def det(x: Tensor) -> Tensor:
    """The determinants `(...)` of matrices `(..., n, n)`; a gradient needs them to be regular."""
    return _det(as_floating(x))


def _slogdet_rule(needs: Any, g: Any, out: Any, x: Tensor) -> tuple[Tensor | None]:
    if g[1] is None:
        return (None,)  # the sign is constant wherever it has a slope
    return (multiply(g[1].reshape(*g[1].shape, 1, 1), adjoint(inverse(x))),)


_slogdet: Primitive = Primitive(
    "slogdet",
    lapack(lambda x: tuple(np.linalg.slogdet(x))),
    lambda x: (Spec(infer_square("slogdet")(x).shape[:-2], x.dtype),) * 2,
    _slogdet_rule,
)


@method
def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the absolute value of the determinants of real matrices `(..., n, n)`, without overflow."""
    sign, logarithm = _slogdet.several(as_real(x, "slogdet"))
    return sign, logarithm


@method
def logdet(x: Tensor) -> Tensor:
    """The logarithm of the determinants of real matrices `(..., n, n)`; NaN where one is negative."""
    sign, logarithm = slogdet(x)
    return where(sign > 0.0, logarithm, float("nan"))


@method
def matrix_power(x: Tensor, exponent: int) -> Tensor:
    """The product of `exponent` copies of matrices `(..., n, n)`; of inverses for a negative exponent."""
    x = as_floating(x)
    check_square(Spec(x.shape, x.dtype), "matrix_power")
    if exponent < 0:
        return matrix_power(inv(x), -exponent)
    result = broadcast_to(wrap(np.eye(x.shape[-1], dtype=x.dtype)), x.shape)
    while exponent:
        if exponent % 2:
            result = matmul(result, x)
        exponent //= 2
        x = matmul(x, x) if exponent else x
    return result
