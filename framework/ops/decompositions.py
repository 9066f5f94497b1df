"""Decompositions of matrices (QR, SVD, eigenvalues), and the norms and least squares made of them.

Each works on the last two axes, the others are a batch. Gradients exist where eigenvalues (singular values) differ.

Reference:
    Giles 2008, "Collected matrix derivative results"; Townsend 2016, "Differentiating the singular value
    decomposition"; Walter and Lehmann 2012, "Algorithmic differentiation of linear algebra functions"; Golub and
    Pereyra 1973, "The differentiation of pseudo-inverses", eq. 4.12.
"""

from collections.abc import Sequence

import numpy as np

from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Spec
from ..tensor import Array, Tensor, method, wrap
from .arithmetic_ops import abs, add, divide, multiply, reciprocal, square, subtract
from .constructed import diag_embed, tril
from .create import full
from .layout import concat
from .linear_systems import adjoint, check_square, hermitian, lapack, triangular_solve
from .logic_ops import where
from .matrix_products import matmul
from .operands import as_floating, as_real, cast_to, conjugate, pair
from .reduce import max, min, sum
from .statistical_ops import l2_norm, vector_norm


def _filled(g: Sequence[Tensor | None], specs: Sequence[Tensor]) -> list[Tensor]:
    return [full(y.shape, 0, y.dtype) if x is None else x for x, y in zip(g, specs, strict=True)]


def eye_like(x: Tensor, n: int) -> Tensor:
    """Return the unit matrix of `n` rows in the dtype of `x`."""
    return wrap(np.eye(n, dtype=x.dtype))


def _gaps(values: Tensor) -> Tensor:
    """Return `1 / (values_j - values_i)` at place (i, j), 0 on the diagonal."""
    n = values.shape[-1]
    same = wrap(np.eye(n, dtype=bool))
    difference = subtract(values.reshape(*values.shape[:-1], 1, n), values.reshape(*values.shape, 1))
    return where(same, 0.0, reciprocal(where(same, 1.0, difference)))


def _eigh_of(x: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh((x + x.conj().swapaxes(-1, -2)) / 2)
    return values, vectors


def _eigh_rule(needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], x: Tensor) -> tuple[Tensor]:
    values, vectors = out
    of_values, of_vectors = _filled(g, out)
    inner = diag_embed(cast_to(of_values, x.dtype))
    if g[1] is not None:
        turned = matmul(adjoint(vectors), of_vectors)
        inner = add(inner, multiply(turned, cast_to(_gaps(values), x.dtype)))
    return (hermitian(matmul(matmul(vectors, inner), adjoint(vectors))),)


def _infer_eigh(x: Spec) -> tuple[Spec, Spec]:
    check_square(x, "eigh")
    real_part = np.empty(0, x.dtype).real.dtype
    return Spec(x.shape[:-1], real_part), x


_eigh: Primitive = Primitive("eigh", lapack(_eigh_of), _infer_eigh, _eigh_rule, saves_output=True)


@method
def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues `(..., n)` in ascending order and eigenvectors (columns) of the Hermitian part of `(..., n,
    n)`."""
    values, vectors = _eigh.several(as_floating(x))
    return values, vectors


@method
def eigvalsh(x: Tensor) -> Tensor:
    """Return eigenvalues `(..., n)`, in ascending order, of the Hermitian part of `(..., n, n)`."""
    return eigh(x)[0]


def _svd_of(x: Array) -> tuple[Array, Array, Array]:
    u, s, v = np.linalg.svd(x, full_matrices=False)
    return u, s, v


def _infer_svd(x: Spec) -> tuple[Spec, Spec, Spec]:
    if len(x.shape) < 2:
        raise ShapeError(f"'svd' expects matrices (..., m, n), got {x.shape}")
    *batch, m, n = x.shape
    k = m if m < n else n
    return Spec((*batch, m, k), x.dtype), Spec((*batch, k), x.dtype), Spec((*batch, k, n), x.dtype)


def _svd_rule(needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], x: Tensor) -> tuple[Tensor]:
    """Return the gradient by Townsend's equation; turns within the space need the gaps, turns out of it do not."""
    u, s, vh = out
    of_u, of_s, of_vh = _filled(g, out)
    v, of_v = vh.swapaxes(-1, -2), of_vh.swapaxes(-1, -2)
    row, column = s.reshape(*s.shape[:-1], 1, s.shape[-1]), s.reshape(*s.shape, 1)
    inner = diag_embed(of_s)
    result = matmul(matmul(u, inner), vh)
    if g[0] is None and g[2] is None:
        return (result,)
    gaps = _gaps(square(s))
    left, right = matmul(u.swapaxes(-1, -2), of_u), matmul(vh, of_v)
    inner = multiply(multiply(gaps, subtract(left, left.swapaxes(-1, -2))), row)
    inner = add(inner, multiply(column, multiply(gaps, subtract(right, right.swapaxes(-1, -2)))))
    result = add(result, matmul(matmul(u, inner), vh))
    if u.shape[-2] > u.shape[-1]:
        outside = subtract(of_u, matmul(u, left))
        result = add(result, matmul(divide(outside, row), vh))
    if v.shape[-2] > v.shape[-1]:
        outside = subtract(of_v, matmul(v, right))
        result = add(result, matmul(divide(u, row), outside.swapaxes(-1, -2)))
    return (result,)


_svd: Primitive = Primitive("svd", lapack(_svd_of), _infer_svd, _svd_rule, saves_output=True)


@method
def svd(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return `u`, `s`, `vh` with `x = u diag(s) vh`, of real matrices `(..., m, n)`; with `k = min(m, n)` columns and
    rows.

    Returns:
        `(..., m, k)`, `(..., k)` in descending order, `(..., k, n)`.
    """
    u, s, vh = _svd.several(as_real(x, "svd"))
    return u, s, vh


@method
def svdvals(x: Tensor) -> Tensor:
    """Return the singular values `(..., min(m, n))` of real matrices `(..., m, n)`, in descending order."""
    return svd(x)[1]


def _qr_of(x: Array) -> tuple[Array, Array]:
    q, r = np.linalg.qr(x)
    return q, r


def _qr_rule(needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], x: Tensor) -> tuple[Tensor]:
    q, r = out
    of_q, of_r = _filled(g, out)
    m = subtract(matmul(r, adjoint(of_r)), matmul(adjoint(of_q), q))
    below = tril(m, -1)
    on = multiply(m, eye_like(m, m.shape[-1]))
    inner = add(of_q, matmul(q, add(below + adjoint(below), multiply(on + conjugate(on), 0.5))))
    # inner r^-H, as the adjoint of a triangular solution.
    return (adjoint(triangular_solve(r, adjoint(inner), lower=False)),)


def _infer_qr(x: Spec) -> tuple[Spec, Spec]:
    if len(x.shape) < 2:
        raise ShapeError(f"'qr' expects matrices (..., m, n), got {x.shape}")
    *batch, m, n = x.shape
    k = m if m < n else n
    return Spec((*batch, m, k), x.dtype), Spec((*batch, k, n), x.dtype)


_qr: Primitive = Primitive("qr", lapack(_qr_of), _infer_qr, _qr_rule, saves_output=True)


@method
def qr(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return `q` with orthonormal columns and upper triangular `r` with `x = q r`, of matrices `(..., m, n)`.

    Returns:
        `(..., m, k)` and `(..., k, n)`, `k = min(m, n)`.
    """
    x = as_floating(x)
    m, n = x.shape[-2:]
    if m >= n:
        q, r = _qr.several(x)
        return q, r
    q, r = _qr.several(x[..., :m])
    return q, concat([r, matmul(adjoint(q), x[..., m:])], -1)


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
    """Return the pseudo-inverses `(..., n, m)` of matrices `(..., m, n)`.

    Args:
        x: Matrices; the gradient is that at constant rank.
        rcond: Singular values below this share of the largest count as 0.
    """
    return _pinv(as_floating(x), rcond=float(rcond))


@method
def lstsq(a: Tensor, b: Tensor) -> Tensor:
    """Return the shortest `x` that makes `|a x - b|` smallest, for `a` `(..., m, n)` and `b` `(..., m, k)` or `(m)`."""
    a, b = pair(as_floating(a), as_floating(b))
    return matmul(pinv(a), b)


@method
def matrix_norm(x: Tensor, order: float | str = "fro", keepdims: bool = False) -> Tensor:
    """Return the norm of matrices `(..., m, n)`.

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
    """Return the norm of vectors (one axis, or all elements without an order) or matrices (two axes).

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
