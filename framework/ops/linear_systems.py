"""Linear systems, Cholesky factors, determinants and powers of matrices, on LAPACK.

Each works on the last two axes, the others are a batch; 16-bit floats are computed in float32.

Reference:
    Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", for
    the gradients that are equations of matrices.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ..dtype import NARROW
from ..errors import NumericalError, ShapeError
from ..primitive import Primitive
from ..specs import Spec, broadcast_shapes
from ..tensor import Array, Tensor, method, wrap
from .arithmetic_ops import multiply, negative
from .constructed import tril, triu
from .logic_ops import where
from .matrix_products import matmul
from .operands import as_floating, as_real, conjugate, pair
from .reduce import broadcast_to, sum_to


def lapack(function: Callable[..., object]) -> Callable[..., Array | tuple[Array, ...]]:
    """Return the function of NumPy's linalg for all floating-point dtypes, its failure an error of ours."""

    def evaluate(*arrays: Array, **attributes: object) -> Array | tuple[Array, ...]:
        dtype = arrays[0].dtype
        wide = [x.astype(np.float32) for x in arrays] if dtype in NARROW else arrays
        try:
            found = function(*wide, **attributes)
        except np.linalg.LinAlgError as error:
            if "square" in str(error) or "dimension" in str(error):
                raise
            raise NumericalError(f"{str(error)[:1].lower()}{str(error)[1:]}") from error
        if isinstance(found, tuple):
            return tuple(np.asarray(x).astype(dtype) if dtype in NARROW else np.asarray(x) for x in found)
        return np.asarray(found).astype(dtype) if dtype in NARROW else np.asarray(found)

    return evaluate


def check_square(x: Spec, name: str) -> None:
    """Check that the last two axes have the same length."""
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"'{name}' expects square matrices (..., n, n), got {x.shape}")


def adjoint(x: Tensor) -> Tensor:
    """Return the conjugate transpose of the last two axes."""
    turned: Tensor = conjugate(x.swapaxes(-1, -2))
    return turned


def hermitian(x: Tensor) -> Tensor:
    """Return `(x + x^H) / 2`."""
    return multiply(x + adjoint(x), 0.5)


def infer_square(name: str) -> Callable[..., Spec]:
    """Return an inference that expects square matrices."""

    def infer(x: Spec, **_: object) -> Spec:
        check_square(x, name)
        return x

    return infer


inverse: Primitive = Primitive(
    "inv",
    lapack(np.linalg.inv),
    infer_square("inv"),
    (lambda g, out, x: negative(matmul(matmul(adjoint(out), g), adjoint(out))),),
    saves_output=True,
)


@method
def inv(x: Tensor) -> Tensor:
    """Return the inverse of matrices `(..., n, n)`.

    Raises:
        NumericalError: One of them is singular.
    """
    return inverse(as_floating(x))


def infer_solve(a: Spec, b: Spec, **_: object) -> Spec:
    """Return the shape of the solutions."""
    check_square(a, "solve")
    if len(b.shape) < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(f"'solve' of {a.shape} expects right-hand sides (..., {a.shape[-1]}, k), got {b.shape}")
    return Spec((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), a.dtype)


def _solve_rule(
    needs: Sequence[bool], g: Tensor, out: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    of_b = _solve(adjoint(a), g)
    return sum_to(negative(matmul(of_b, adjoint(out))), a) if needs[0] else None, sum_to(of_b, b)


_solve: Primitive = Primitive("solve", lapack(np.linalg.solve), infer_solve, _solve_rule, saves_output=True)


def matrix_sides(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Return both in one dtype, the right-hand side as a matrix, and whether it was a vector."""
    first, second = pair(as_floating(a), as_floating(b))
    is_vector = second.ndim == 1
    return first, second.reshape(-1, 1) if is_vector else second, is_vector


@method
def solve(a: Tensor, b: Tensor) -> Tensor:
    """Return `x` such that `a x = b`.

    Args:
        a: `(..., n, n)`.
        b: `(..., n, k)`, or one vector `(n)`.

    Raises:
        NumericalError: A matrix is singular.
    """
    a, b, is_vector = matrix_sides(a, b)
    x = _solve(a, b)
    return x.reshape(x.shape[:-1]) if is_vector else x


def _triangle(x: Array, lower: bool, unit: bool) -> Array:
    part = np.tril(x) if lower else np.triu(x)
    if unit:
        place = np.arange(x.shape[-1])
        part[..., place, place] = 1
    return part


def _triangular_rule(
    needs: Sequence[bool], g: Tensor, out: Tensor, a: Tensor, b: Tensor, *, lower: bool, unit: bool
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
    """Return `x` such that `a x = b`, reading only one triangle of `a`.

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
    """Return `L^-H Phi(L^H g) L^-1`, its Hermitian part; `Phi` is the lower triangle with half of the diagonal."""
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
    """Return the lower triangular `L` with `L L^H = x`, of which the Hermitian part is taken; its adjoint for `upper`.

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
    """Return `x` such that `L L^H x = b`, for right-hand sides `(..., n, k)` and lower factors `(..., n, n)`."""
    half = triangular_solve(factor, b)
    return triangular_solve(adjoint(factor), half, lower=False)


_det: Primitive = Primitive(
    "det",
    lapack(np.linalg.det),
    lambda x: Spec(infer_square("det")(x).shape[:-2], x.dtype),
    (lambda g, out, x: multiply(multiply(g, conjugate(out)).reshape(*g.shape, 1, 1), adjoint(inverse(x))),),
    saves_output=True,
)


@method
def det(x: Tensor) -> Tensor:
    """Return the determinants `(...)` of matrices `(..., n, n)`; a gradient needs them to be regular."""
    return _det(as_floating(x))


def _slogdet_rule(
    needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], x: Tensor
) -> tuple[Tensor | None]:
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
    """Return the logarithm of the determinants of real matrices `(..., n, n)`; NaN where one is negative."""
    sign, logarithm = slogdet(x)
    return where(sign > 0.0, logarithm, float("nan"))


@method
def matrix_power(x: Tensor, exponent: int) -> Tensor:
    """Return the product of `exponent` copies of matrices `(..., n, n)`; of inverses for a negative exponent."""
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
