"""Products of matrices, vectors and tensors, and products of row groups with a matrix each.

`grouped_matmul` multiplies runs of rows of any lengths: the experts of a mixture. The product is bilinear, and the
gradients of its two factors are a product of the same kind and `grouped_outer`, whose own gradients are products again:
the family is closed, so derivatives of every order run at one speed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtype import NARROW, float32, float64
from ..errors import DtypeError, ShapeError
from ..primitive import Primitive
from ..specs import Spec, matmul_shape, normalize_axis
from ..tensor import Array, Tensor, TensorLike, method, wrap
from .arithmetic_ops import add, multiply, subtract
from .indexing_ops import getitem
from .layout import moveaxis, swapaxes
from .operands import as_tensor, conjugate, pair
from .reduce import array_sum_to, sum_to


def _product(a: Array, b: Array) -> Array:
    """Return `a @ b`; 16-bit floats are multiplied in float32, which BLAS knows."""
    if a.dtype in NARROW:
        product: Array = np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    elif b.ndim == 2 and a.ndim > 2:
        # One large product instead of a stack of small ones.
        product = np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    else:
        product = np.matmul(a, b)
    return product


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
    """Return `a @ b`: vectors, matrices, and stacks of matrices that broadcast."""
    return _matmul(*pair(a, b))


def _linear_of(x: Array, weight: Array, bias: Array) -> Array:
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
    """Return the rows of all matrices in one."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    rows = g if g.ndim == 2 else g.reshape(-1, g.shape[-1])
    features = conjugate(x) if x.ndim == 2 else conjugate(x).reshape(-1, x.shape[-1])
    return _matmul(rows.swapaxes(0, 1), features)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `x weight^T + bias`, for an input `(..., features)`, a weight `(out, features)` and a bias `(out)`."""
    if bias is None:
        return matmul(x, weight.swapaxes(0, 1))
    x, weight = pair(x, weight)
    return _linear(x, weight, pair(x, bias)[1])


def _vector(x: Tensor, name: str) -> Tensor:
    if x.ndim != 1:
        raise ShapeError(f"{name} expects vectors, got shape {x.shape}")
    return x


@method
def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum of the products of two vectors of one length."""
    return matmul(_vector(a, "dot"), _vector(b, "dot"))


@method
def vdot(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum of the products of two vectors, the first conjugated."""
    return dot(conjugate(a), b)


@method
def inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the sums of products along the last axes, `(*a, *b)` without them; with a tensor of no axes a plain
    product."""
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    return tensordot(a, b, ((-1,), (-1,)))


@method
def outer(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of every element of one vector with every element of the other."""
    return multiply(_vector(a, "outer").reshape(-1, 1), _vector(b, "outer"))


@method
def mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return a matrix times a vector."""
    return matmul(matrix, _vector(vector, "mv"))


@method
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of two stacks `(batch, n, m)` and `(batch, m, k)` of matrices."""
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
        raise ShapeError(f"bmm expects (batch, n, m) and (batch, m, k), got {a.shape} and {b.shape}")
    return matmul(a, b)


@method
def addmm(x: TensorLike, a: Tensor, b: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """Return `beta x + alpha a b` of matrices: ONNX's Gemm."""
    product = matmul(a, b)
    product = product if alpha == 1.0 else multiply(product, alpha)
    return add(x if beta == 1.0 else multiply(x, beta), product)


@method
def tensordot(a: Tensor, b: Tensor, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over pairs of axes.

    Args:
        a: `(*left, *summed)` in any order.
        b: `(*summed, *right)` in any order.
        axes: Which axes of each; or how many of the last of `a` and first of `b`.

    Returns:
        `(*left, *right)`.
    """
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    first = [normalize_axis(axis, a.ndim) for axis in axes[0]]
    second = [normalize_axis(axis, b.ndim) for axis in axes[1]]
    if [a.shape[i] for i in first] != [b.shape[j] for j in second]:
        raise ShapeError(f"tensordot of {a.shape} and {b.shape} expects equal lengths along axes {first} and {second}")
    left = [i for i in range(a.ndim) if i not in first]
    right = [j for j in range(b.ndim) if j not in second]
    size = 1
    for i in first:
        size *= a.shape[i]
    rows = a.transpose(*left, *first).reshape(-1, size) if a.ndim else a.reshape(1, 1)
    columns = b.transpose(*second, *right).reshape(size, -1) if b.ndim else b.reshape(1, 1)
    return matmul(rows, columns).reshape(*(a.shape[i] for i in left), *(b.shape[j] for j in right))


@method
def kron(a: Tensor, b: Tensor) -> Tensor:
    """Return Kronecker's product: every element of `a` times the whole of `b`, side by side; missing axes come in
    front."""
    ndim = max(a.ndim, b.ndim)
    first, second = ((*(1,) * (ndim - x.ndim), *x.shape) for x in (a, b))
    apart = multiply(
        a.reshape(tuple(n for length in first for n in (length, 1))),
        b.reshape(tuple(n for length in second for n in (1, length))),
    )
    return apart.reshape(tuple(n * m for n, m in zip(first, second, strict=True)))


@method
def cross(a: Tensor, b: Tensor, axis: int = -1) -> Tensor:
    """Return the vector product along an axis of length 3."""
    first, second = (moveaxis(as_tensor(x), axis, -1) for x in (a, b))
    if first.shape[-1] != 3 or second.shape[-1] != 3:
        raise ShapeError(f"cross expects length 3 along axis {axis}, got {a.shape} and {b.shape}")
    after, before = wrap(np.array([1, 2, 0])), wrap(np.array([2, 0, 1]))
    found = subtract(
        multiply(getitem(first, (..., after)), getitem(second, (..., before))),
        multiply(getitem(first, (..., before)), getitem(second, (..., after))),
    )
    return moveaxis(found, -1, axis)


@method
def multi_dot(first: Tensor, *others: Tensor) -> Tensor:
    """Return the product of several matrices, from the left."""
    for other in others:
        first = matmul(first, other)
    return first


def _wide(x: Array) -> Array:
    return x if x.dtype in (float32, float64) else x.astype(float32)


def _runs(counts: Array, rows: int) -> list[tuple[int, int, int]]:
    """Return matrix, start and end of each run that is not empty."""
    ends = np.cumsum(counts)
    if counts.min(initial=0) < 0 or (ends[-1] if ends.size else 0) != rows:
        raise ShapeError(f"the counts of a grouped product must add up to its {rows} rows, got {counts.tolist()}")
    return [(i, int(end - n), int(end)) for i, (n, end) in enumerate(zip(counts, ends, strict=True)) if n]


def _grouped_matmul_of(x: Array, matrices: Array, counts: Array) -> Array:
    rows, wide = _wide(x), _wide(matrices)
    out = np.zeros((len(x), matrices.shape[-1]), np.result_type(rows, wide))
    for number, start, end in _runs(counts, len(x)):
        np.matmul(rows[start:end], wide[number], out=out[start:end])
    return out.astype(x.dtype, copy=False)


def _outer_of(x: Array, g: Array, counts: Array) -> Array:
    rows, others = _wide(x), _wide(g)
    out = np.zeros((len(counts), x.shape[-1], g.shape[-1]), np.result_type(rows, others))
    for number, start, end in _runs(counts, len(x)):
        np.matmul(rows[start:end].T, others[start:end], out=out[number])
    return out.astype(x.dtype, copy=False)


def _check_counts(counts: Spec, length: int) -> None:
    if counts.dtype.kind not in "iu":
        raise DtypeError(f"the counts of a grouped product must be integers, got {counts.dtype}")
    if counts.ndim != 1 or counts.shape[0] != length:
        raise ShapeError(f"a grouped product expects a count for each of {length} matrices, got {counts.shape}")


def _infer_grouped_matmul(x: Spec, matrices: Spec, counts: Spec) -> Spec:
    if x.ndim != 2 or matrices.ndim != 3 or x.shape[1] != matrices.shape[1]:
        raise ShapeError(
            f"grouped_matmul expects rows (rows, in) and matrices (groups, in, out), got {x.shape} and {matrices.shape}"
        )
    _check_counts(counts, matrices.shape[0])
    return Spec((x.shape[0], matrices.shape[2]), x.dtype)


def _infer_outer(x: Spec, g: Spec, counts: Spec) -> Spec:
    if x.ndim != 2 or g.ndim != 2 or x.shape[0] != g.shape[0]:
        raise ShapeError(f"grouped_outer expects rows (rows, in) and (rows, out), got {x.shape} and {g.shape}")
    _check_counts(counts, counts.shape[0] if counts.ndim else 0)
    return Spec((counts.shape[0], x.shape[1], g.shape[1]), x.dtype)


_grouped_matmul: Primitive = Primitive(
    "grouped_matmul",
    _grouped_matmul_of,
    _infer_grouped_matmul,
    (
        lambda g, _, x, matrices, counts: _grouped_matmul(g, swapaxes(matrices, 1, 2), counts),
        lambda g, _, x, matrices, counts: _outer(x, g, counts),
        None,
    ),
)
_outer: Primitive = Primitive(
    "grouped_outer",
    _outer_of,
    _infer_outer,
    (
        lambda gg, _, x, g, counts: _grouped_matmul(g, swapaxes(gg, 1, 2), counts),
        lambda gg, _, x, g, counts: _grouped_matmul(x, gg, counts),
        None,
    ),
)


def grouped_matmul(x: Tensor, matrices: Tensor, counts: Tensor) -> Tensor:
    """Return rows `(rows, in)` times a matrix each, as `(rows, out)`.

    Args:
        x: The rows, those of one group one after the other.
        matrices: `(groups, in, out)`, of the dtype of the rows.
        counts: `(groups)`, how many rows each group has; they add up to all.

    Reference:
        Gale et al. 2023, arXiv:2211.15841.
    """
    if x.dtype != matrices.dtype:
        raise DtypeError(f"grouped_matmul expects rows and matrices of one dtype, got {x.dtype} and {matrices.dtype}")
    return _grouped_matmul(x, matrices, counts)
