"""Order along an axis: sorting, the largest, the k-th, quantiles."""

import math
from typing import Any

import numpy as np

from ..dtype import int64
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec, normalize_axis
from ..tensor import Array, Tensor, method
from .arithmetic import add, multiply, subtract
from .choose import where
from .compare import isnan
from .elements import put_elements
from .indexing import narrow
from .operands import as_real, as_tensor
from .statistics import any as any_of


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Indices that sort, equal elements in their order; NaN counts as the largest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    turned = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - turned, axis)


def _sort_of(x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    order = _order(x, axis, descending)
    return np.take_along_axis(x, order, axis), np.ascontiguousarray(order)


def _picked_gradient(needs: Any, g: Any, out: Any, x: Tensor, *, axis: int, **_: Any) -> tuple[Tensor | None]:
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
    """The elements in order along `axis`, and where each came from.

    Equal elements keep their order; NaN counts as the largest. The gradient goes back to where each came from.
    """
    x = as_tensor(x)
    values, places = _sort.several(x, axis=normalize_axis(axis, x.ndim), descending=descending)
    return values, places


@method
def argsort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """The indices that put the elements along `axis` in order; equal ones keep theirs."""
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
    """The largest (smallest) elements along `axis`, in order, and where they stand; the first of equals comes first."""
    x = as_tensor(x)
    place = normalize_axis(axis, x.ndim)
    if not 0 <= count <= x.shape[place]:
        raise ShapeError(f"topk expects 0 to {x.shape[place]} elements along axis {axis} of {x.shape}, got {count}")
    values, places = _topk.several(x, count=count, axis=place, largest=largest)
    return values, places


@method
def kthvalue(x: Tensor, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along `axis`, counted from 1, and where it stands."""
    x = as_tensor(x)
    place = normalize_axis(axis, x.ndim)
    if not 1 <= k <= x.shape[place]:
        raise ShapeError(f"kthvalue expects k from 1 to {x.shape[place]}, got {k}")
    values, places = sort(x, place)
    at = (*(slice(None),) * place, k - 1)
    return values[at], places[at]


@method
def quantile(x: Tensor, q: float, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The value below which a share `q` of the elements lies, interpolated linearly; NaN if there is one.

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
    """The middle element over `axis`, of an even number the mean of both (NumPy's; PyTorch takes the lower)."""
    return quantile(x, 0.5, axis, keepdims)
