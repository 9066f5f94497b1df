"""Triangular systems and Cholesky's factor."""

from typing import Any

import numpy as np

from ..primitive import Primitive
from ..tensor import Array, Tensor, method, wrap
from .arithmetic import multiply, negative
from .constructed import tril, triu
from .lapack import adjoint, hermitian, infer_square, lapack
from .linalg import matmul
from .operands import as_floating
from .reduce import sum_to
from .solve import infer_solve, matrix_sides


def _triangle(x: Array, lower: bool, unit: bool) -> Array:
    part = np.tril(x) if lower else np.triu(x)
    if unit:
        place = np.arange(x.shape[-1])
        part[..., place, place] = 1
    return part


def _triangular_rule(
    needs: Any, g: Tensor, out: Tensor, a: Tensor, b: Tensor, *, lower: bool, unit: bool
) -> tuple[Tensor | None, Tensor | None]:
    of_b = _triangular(adjoint(a), g, lower=not lower, unit=unit)
    of_a = None
    if needs[0]:
        whole = sum_to(negative(matmul(of_b, adjoint(out))), a)
        of_a = tril(whole, -1 if unit else 0) if lower else triu(whole, 1 if unit else 0)
    return of_a, sum_to(of_b, b)


_triangular: Primitive = Primitive(
    "triangular_solve",
    lapack(lambda a, b, *, lower, unit: np.linalg.solve(_triangle(a, lower, unit), b)),
    infer_solve,
    _triangular_rule,
    saves_output=True,
)


@method
def triangular_solve(a: Tensor, b: Tensor, *, lower: bool = True, unit_diagonal: bool = False) -> Tensor:
    """`x` such that `a x = b`, reading only one triangle of `a`.

    Args:
        a: `(..., n, n)`.
        b: `(..., n, k)`, or one vector `(n)`.
        lower: Which triangle.
        unit_diagonal: Take the diagonal as ones.
    """
    a, b, is_vector = matrix_sides(a, b)
    x = _triangular(a, b, lower=lower, unit=unit_diagonal)
    return x.reshape(x.shape[:-1]) if is_vector else x


def _cholesky_gradient(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """`L^-H Phi(L^H g) L^-1`, its Hermitian part; `Phi` is the lower triangle with half of the diagonal."""
    n = out.shape[-1]
    half = wrap(np.tri(n, dtype=out.dtype) - np.eye(n, dtype=out.dtype) / 2)
    middle = multiply(matmul(adjoint(out), g), half)
    left = _triangular(adjoint(out), middle, lower=False, unit=False)
    return hermitian(adjoint(_triangular(adjoint(out), adjoint(left), lower=False, unit=False)))


def _symmetric(x: Array) -> Array:
    whole: Array = (x + x.conj().swapaxes(-1, -2)) / 2
    return whole


_cholesky: Primitive = Primitive(
    "cholesky",
    lapack(lambda x: np.linalg.cholesky(_symmetric(x))),
    infer_square("cholesky"),
    (_cholesky_gradient,),
    saves_output=True,
)


@method
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """The lower triangular `L` with `L L^H = x`, of which the Hermitian part is taken; its adjoint for `upper`.

    Args:
        x: `(..., n, n)`, positive definite.
        upper: Return `L^H`.

    Raises:
        NumericalError: A matrix is not positive definite.
    """
    factor = _cholesky(as_floating(x))
    return adjoint(factor) if upper else factor


@method
def cholesky_solve(b: Tensor, factor: Tensor) -> Tensor:
    """`x` such that `L L^H x = b`, for right-hand sides `(..., n, k)` and lower factors `(..., n, n)`."""
    half = triangular_solve(factor, b)
    return triangular_solve(adjoint(factor), half, lower=False)
