"""Order: sorting, ranks and quantiles, searches and counts, and selections whose length depends on the values."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, NoReturn

import numpy as np

from ..dtype import bool_, int64
from ..errors import DataDependentShape, ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..specs import Spec, broadcast_shapes, normalize_axis
from ..tensor import Array, Tensor, method
from .arithmetic_ops import add, multiply, subtract
from .gather_scatter import gather_elements, put_elements
from .indexing_ops import narrow
from .logic_ops import isnan, where
from .operands import as_real, as_tensor, cast_to, pair
from .reduce import broadcast_to
from .statistical_ops import any as any_of


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Return indices that sort, equal elements in their order; NaN counts as the largest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    turned = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - turned, axis)


def _sort_of(x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    order = _order(x, axis, descending)
    return np.take_along_axis(x, order, axis), np.ascontiguousarray(order)


def _picked_gradient(
    needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], x: Tensor, *, axis: int, **_: object
) -> tuple[Tensor | None]:
    return (None if g[0] is None else put_elements(g[0], out[1], axis, x.shape),)


_sort: Primitive = Primitive(
    "sort",
    _sort_of,
    lambda x, *, axis, descending: (x, Spec(x.shape, int64)),
    _picked_gradient,
    saves_output=True,
)


@method
def sort(x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return the elements in order along `axis`, and where each came from.

    Equal elements keep their order; NaN counts as the largest. The gradient goes back to where each came from.
    """
    x = as_tensor(x)
    values, places = _sort.several(x, axis=normalize_axis(axis, x.ndim), descending=descending)
    return values, places


@method
def argsort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """Return the indices that put the elements along `axis` in order; equal ones keep theirs."""
    return sort(x, axis, descending)[1]


def _topk_of(x: Array, *, count: int, axis: int, largest: bool) -> tuple[Array, Array]:
    first = (*(slice(None),) * axis, slice(count))
    order = np.ascontiguousarray(_order(x, axis, largest)[first])
    return np.take_along_axis(x, order, axis), order


def _infer_topk(x: Spec, *, count: int, axis: int, largest: bool) -> tuple[Spec, Spec]:
    if count > x.shape[axis]:
        raise ShapeError(f"topk expects at most the {x.shape[axis]} elements of axis {axis}, got {count}")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return Spec(shape, x.dtype), Spec(shape, int64)


_topk: Primitive = Primitive("topk", _topk_of, _infer_topk, _picked_gradient, saves_output=True)


@method
def topk(x: Tensor, count: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the largest (smallest) elements along `axis`, in order, and where they stand; the first of equals comes
    first."""
    x = as_tensor(x)
    place = normalize_axis(axis, x.ndim)
    if not 0 <= count <= x.shape[place]:
        raise ShapeError(f"topk expects 0 to {x.shape[place]} elements along axis {axis} of {x.shape}, got {count}")
    values, places = _topk.several(x, count=count, axis=place, largest=largest)
    return values, places


@method
def kthvalue(x: Tensor, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Return the k-th smallest element along `axis`, counted from 1, and where it stands."""
    x = as_tensor(x)
    place = normalize_axis(axis, x.ndim)
    if not 1 <= k <= x.shape[place]:
        raise ShapeError(f"kthvalue expects k from 1 to {x.shape[place]}, got {k}")
    values, places = sort(x, place)
    at = (*(slice(None),) * place, k - 1)
    return values[at], places[at]


@method
def quantile(x: Tensor, q: float, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the value below which a share `q` of the elements lies, interpolated linearly; NaN if there is one.

    Args:
        x: Real.
        q: From 0 to 1.
        axis: Along which; None for all elements.
        keepdims: Whether the axis stays, of length 1.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"quantile expects a share from 0 to 1, got {q}")
    x = as_real(x, "quantile")
    flat = x.reshape(-1) if axis is None else x
    place = 0 if axis is None else normalize_axis(axis, x.ndim)
    if flat.shape[place] < 1:
        raise ShapeError(f"quantile expects an element or more along axis {place}, got shape {flat.shape}")
    values = sort(flat, place)[0]
    where_ = q * (flat.shape[place] - 1)
    low = math.floor(where_)
    high = low + 1 if low + 1 < flat.shape[place] else low
    below, above = narrow(values, place, low, low + 1), narrow(values, place, high, high + 1)
    found = add(below, multiply(subtract(above, below), where_ - low))
    found = where(any_of(isnan(flat), place, keepdims=True), math.nan, found)
    if axis is None:
        return found.reshape((1,) * x.ndim if keepdims else ())
    return found if keepdims else found.reshape(*flat.shape[:place], *flat.shape[place + 1 :])


@method
def median(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the middle element over `axis`, of an even number the mean of both (NumPy's; PyTorch takes the lower)."""
    return quantile(x, 0.5, axis, keepdims)


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
    """Return where each of `x` would have to stand in a sorted row to keep it sorted.

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
    """Return how often each of the numbers 0 to `length - 1` occurs, or the sum of its weights.

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
    """Return how many elements lie in each of `bins` equal intervals from `low` to `high`, the last one closed."""
    if bins < 1 or not low < high:
        raise ValueError(f"histogram expects a bin or more and low < high, got {bins} and {low}..{high}")
    return _histogram(as_tensor(x), bins=bins, low=float(low), high=float(high))


class Unique(NamedTuple):
    """Distinct values or slices, and how the elements are distributed over them."""

    values: Tensor
    first: Tensor  # where each occurs first
    inverse: Tensor  # the number of each element's value
    counts: Tensor


def _unique_of(x: Array, *, axis: int | None, sorted: bool) -> tuple[Array, ...]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis, equal_nan=False)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return tuple(np.ascontiguousarray(array) for array in (values, first, inverse, counts))


def _unknown(*_: object, **__: object) -> NoReturn:
    raise DataDependentShape.of("unique", "bincount with a fixed length")


_unique: Primitive = Primitive("unique", _unique_of, _unknown, NOT_DIFFERENTIABLE)


@method
def unique(x: Tensor, axis: int | None = None, sorted: bool = True) -> Unique:
    """Return the distinct elements (slices along `axis`), with first places, inverse and counts.

    Args:
        x: Any tensor.
        axis: None for the elements of the flat tensor.
        sorted: In ascending order, else in order of first occurrence.

    Raises:
        DataDependentShape: In a compiled function: how many there are is not known.
    """
    x = as_tensor(x)
    place = None if axis is None else normalize_axis(axis, x.ndim)
    return Unique(*_unique.several(x, axis=place, sorted=sorted))


def _no_count(*_: object, **__: object) -> NoReturn:
    raise DataDependentShape.of("nonzero", "ops.where")


_nonzero: Primitive = Primitive(
    "nonzero", lambda x: np.argwhere(x).astype(np.int64, copy=False), _no_count, NOT_DIFFERENTIABLE
)


@method
def nonzero(x: Tensor) -> Tensor:
    """Return the coordinates `(count, axes)` of the elements that are not zero.

    Raises:
        DataDependentShape: In a compiled function.
    """
    return _nonzero(as_tensor(x))


@method
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements `(count)` where the mask, which broadcasts with `x`, holds; a gradient flows back to them.

    Raises:
        DataDependentShape: In a compiled function.
    """
    x, mask = as_tensor(x), as_tensor(mask)
    both = broadcast_shapes(x.shape, mask.shape)
    whole = x if x.shape == both else broadcast_to(x, both)
    return whole[broadcast_to(cast_to(mask, bool_), both)]
