"""Linear systems: solutions and inverses.

Each works on the last two axes, the others are a batch; 16-bit floats are computed in float32. A gradient that is an
equation of matrices is the one of Giles.

Reference:
    Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation".
"""

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec, broadcast_shapes
from ..tensor import Tensor, method
from .arithmetic import negative
from .lapack import adjoint, check_square, infer_square, lapack
from .linalg import matmul
from .operands import as_floating, pair
from .reduce import sum_to

inverse: Primitive = Primitive(
    "inv",
    lapack(np.linalg.inv),
    infer_square("inv"),
    (lambda g, out, x: negative(matmul(matmul(adjoint(out), g), adjoint(out))),),
    saves_output=True,
)


@method
def inv(x: Tensor) -> Tensor:
    """The inverse of matrices `(..., n, n)`.

    Raises:
        NumericalError: One of them is singular.
    """
    return inverse(as_floating(x))


def infer_solve(a: Spec, b: Spec, **_: object) -> Spec:
    """The shape of the solutions."""
    check_square(a, "solve")
    if len(b.shape) < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(f"'solve' of {a.shape} expects right-hand sides (..., {a.shape[-1]}, k), got {b.shape}")
    return Spec((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), a.dtype)


def _solve_rule(needs: Any, g: Tensor, out: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor | None, Tensor | None]:
    of_b = _solve(adjoint(a), g)
    return sum_to(negative(matmul(of_b, adjoint(out))), a) if needs[0] else None, sum_to(of_b, b)


_solve: Primitive = Primitive("solve", lapack(np.linalg.solve), infer_solve, _solve_rule, saves_output=True)


def matrix_sides(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Both in one dtype, the right-hand side as a matrix, and whether it was a vector."""
    first, second = pair(as_floating(a), as_floating(b))
    is_vector = second.ndim == 1
    return first, second.reshape(-1, 1) if is_vector else second, is_vector


@method
def solve(a: Tensor, b: Tensor) -> Tensor:
    """`x` such that `a x = b`.

    Args:
        a: `(..., n, n)`.
        b: `(..., n, k)`, or one vector `(n)`.

    Raises:
        NumericalError: A matrix is singular.
    """
    a, b, is_vector = matrix_sides(a, b)
    x = _solve(a, b)
    return x.reshape(x.shape[:-1]) if is_vector else x
