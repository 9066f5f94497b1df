"""Where values belong in a sorted row, and how many fall where."""

from typing import Literal

import numpy as np

from ..dtype import int64
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Spec
from ..tensor import Array, Tensor, method
from .elements import gather_elements
from .operands import as_real, as_tensor, pair

_searchsorted: Primitive = Primitive(
    "searchsorted",
    lambda row, x, *, right: np.asarray(_search(row, x, right)),
    lambda row, x, *, right: Spec(x.shape, int64),
    NOT_DIFFERENTIABLE,
)


def _search(row: Array, x: Array, right: bool) -> Array:
    side: Literal["left", "right"] = "right" if right else "left"
    if row.ndim == 1:
        return np.asarray(np.searchsorted(row, x, side), np.int64)
    if row.shape[:-1] != x.shape[:-1]:
        raise ShapeError(f"searchsorted of rows {row.shape} expects values with the same leading axes, got {x.shape}")
    result = np.empty(x.shape, np.int64)
    for place in np.ndindex(row.shape[:-1]):
        result[place] = np.searchsorted(row[place], x[place], side)
    return result


@method
def searchsorted(row: Tensor, x: Tensor, right: bool = False) -> Tensor:
    """Where each of `x` would have to stand in a sorted row to keep it sorted.

    Args:
        row: `(n)`, ascending; or `(*batch, n)`.
        x: `(*shape)`; `(*batch, m)` for a batch of rows.
        right: Behind equal elements instead of before them.

    Returns:
        int64, of the shape of `x`.
    """
    return _searchsorted(*pair(as_tensor(row), as_tensor(x)), right=right)


def _bincount_of(x: Array, *weights: Array, length: int) -> Array:
    if x.size and (x.min() < 0 or x.max() >= length):
        raise ShapeError(
            f"bincount into {length} bins expects numbers from 0 to {length - 1}, got {x.min()}..{x.max()}"
        )
    counts = np.bincount(x, weights[0] if weights else None, length)
    return counts.astype(weights[0].dtype if weights else np.int64, copy=False)


_bincount: Primitive = Primitive(
    "bincount",
    _bincount_of,
    lambda x, *weights, length: Spec((length,), weights[0].dtype if weights else int64),
    lambda needs, g, _, x, *weights, length: (None, *(gather_elements(g, x, 0) for w in weights)),
)


@method
def bincount(x: Tensor, length: int, weights: Tensor | None = None) -> Tensor:
    """How often each of the numbers 0 to `length - 1` occurs, or the sum of its weights.

    Args:
        x: `(n)`, integers.
        length: Number of bins: static, so that the shape does not depend on the data.
        weights: `(n)`; a gradient flows to them.
    """
    x = as_tensor(x)
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise ShapeError(f"bincount expects integers of shape (n), got {x.dtype} of shape {x.shape}")
    return _bincount(x, length=length) if weights is None else _bincount(x, as_real(weights, "bincount"), length=length)


_histogram: Primitive = Primitive(
    "histogram",
    lambda x, *, bins, low, high: np.histogram(x.astype(np.float64), bins, (low, high))[0].astype(np.int64),
    lambda x, *, bins, low, high: Spec((bins,), int64),
    NOT_DIFFERENTIABLE,
)


@method
def histogram(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    """How many elements lie in each of `bins` equal intervals from `low` to `high`, the last one closed."""
    if bins < 1 or not low < high:
        raise ValueError(f"histogram expects a bin or more and low < high, got {bins} and {low}..{high}")
    return _histogram(as_tensor(x), bins=bins, low=float(low), high=float(high))
