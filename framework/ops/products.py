"""Products of vectors, matrices and tensors under their usual names; all of them are products that stand elsewhere."""

from collections.abc import Sequence

import numpy as np

from ..errors import ShapeError
from ..shape import normalize_axis
from ..tensor import Tensor, TensorLike, method, wrap
from .arithmetic import add, multiply, subtract
from .indexing import getitem
from .layout import moveaxis
from .linalg import matmul
from .operands import as_tensor, conjugate


def _vector(x: Tensor, name: str) -> Tensor:
    if x.ndim != 1:
        raise ShapeError(f"{name} expects vectors, got shape {x.shape}")
    return x


@method
def dot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of the products of two vectors of one length."""
    return matmul(_vector(a, "dot"), _vector(b, "dot"))


@method
def vdot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of the products of two vectors, the first conjugated."""
    return dot(conjugate(a), b)


@method
def inner(a: Tensor, b: Tensor) -> Tensor:
    """The sums of products along the last axes, `(*a, *b)` without them; with a tensor of no axes a plain product."""
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    return tensordot(a, b, ((-1,), (-1,)))


@method
def outer(a: Tensor, b: Tensor) -> Tensor:
    """The products of every element of one vector with every element of the other."""
    return multiply(_vector(a, "outer").reshape(-1, 1), _vector(b, "outer"))


@method
def mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """A matrix times a vector."""
    return matmul(matrix, _vector(vector, "mv"))


@method
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """The products of two stacks `(batch, n, m)` and `(batch, m, k)` of matrices."""
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
        raise ShapeError(f"bmm expects (batch, n, m) and (batch, m, k), got {a.shape} and {b.shape}")
    return matmul(a, b)


@method
def addmm(x: TensorLike, a: Tensor, b: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """`beta x + alpha a b` of matrices: ONNX's Gemm."""
    product = matmul(a, b)
    product = product if alpha == 1.0 else multiply(product, alpha)
    return add(x if beta == 1.0 else multiply(x, beta), product)


@method
def tensordot(a: Tensor, b: Tensor, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over pairs of axes.

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
    """Kronecker's product: every element of `a` times the whole of `b`, side by side; missing axes come in front."""
    ndim = max(a.ndim, b.ndim)
    first, second = ((*(1,) * (ndim - x.ndim), *x.shape) for x in (a, b))
    apart = multiply(
        a.reshape(tuple(n for length in first for n in (length, 1))),
        b.reshape(tuple(n for length in second for n in (1, length))),
    )
    return apart.reshape(tuple(n * m for n, m in zip(first, second, strict=True)))


@method
def cross(a: Tensor, b: Tensor, axis: int = -1) -> Tensor:
    """The vector product along an axis of length 3."""
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
    """The product of several matrices, from the left."""
    for other in others:
        first = matmul(first, other)
    return first
