"""Products of runs of rows with a matrix each, the runs being of any lengths: the experts of a mixture.

The product is bilinear, and the gradients by its two factors are a product of the same kind and `grouped_outer`, whose
own gradients are products again: the family is closed, so derivatives of every order run at one speed.
"""

from typing import Any

import numpy as np

from ..dtype import float32, float64
from ..errors import DtypeError, ShapeError
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor
from .array import swapaxes


def _wide(x: Array) -> Array:
    return x if x.dtype in (float32, float64) else x.astype(float32)


def _runs(counts: Array, rows: int) -> list[tuple[int, int, int]]:
    """Matrix, start and end of each run that is not empty."""
    ends = np.cumsum(counts)
    if counts.min(initial=0) < 0 or (ends[-1] if ends.size else 0) != rows:
        raise ShapeError(f"the counts of a grouped product must add up to its {rows} rows, got {counts.tolist()}")
    return [(i, int(end - n), int(end)) for i, (n, end) in enumerate(zip(counts, ends, strict=True)) if n]


def _matmul_of(x: Array, matrices: Array, counts: Array) -> Array:
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


def _check_counts(counts: Spec, length: Any) -> None:
    if counts.dtype.kind not in "iu":
        raise DtypeError(f"the counts of a grouped product must be integers, got {counts.dtype}")
    if counts.ndim != 1 or counts.shape[0] != length:
        raise ShapeError(f"a grouped product expects a count for each of {length} matrices, got {counts.shape}")


def _infer_matmul(x: Spec, matrices: Spec, counts: Spec) -> Spec:
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


_matmul: Primitive = Primitive(
    "grouped_matmul",
    _matmul_of,
    _infer_matmul,
    (
        lambda g, _, x, matrices, counts: _matmul(g, swapaxes(matrices, 1, 2), counts),
        lambda g, _, x, matrices, counts: _outer(x, g, counts),
        None,
    ),
)
_outer: Primitive = Primitive(
    "grouped_outer",
    _outer_of,
    _infer_outer,
    (
        lambda gg, _, x, g, counts: _matmul(g, swapaxes(gg, 1, 2), counts),
        lambda gg, _, x, g, counts: _matmul(x, gg, counts),
        None,
    ),
)


def grouped_matmul(x: Tensor, matrices: Tensor, counts: Tensor) -> Tensor:
    """Rows `(rows, in)` times a matrix each, as `(rows, out)`.

    Args:
        x: The rows, those of one group one after the other.
        matrices: `(groups, in, out)`, of the dtype of the rows.
        counts: `(groups)`, how many rows each group has; they add up to all.

    Reference:
        Gale et al. 2023, arXiv:2211.15841.
    """
    if x.dtype != matrices.dtype:
        raise DtypeError(f"grouped_matmul expects rows and matrices of one dtype, got {x.dtype} and {matrices.dtype}")
    return _matmul(x, matrices, counts)
