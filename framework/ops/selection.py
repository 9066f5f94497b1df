"""What there is: distinct values, places that are not zero, elements under a mask. Their number depends on the data."""

from typing import Any, NamedTuple

import numpy as np

from ..dtype import bool_
from ..errors import DataDependentShape
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import broadcast_shapes, normalize_axis
from ..tensor import Array, Tensor, method
from .operands import as_tensor, cast_to
from .reduce import broadcast_to


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


def _unknown(*_: object, **__: object) -> Any:
    raise DataDependentShape.of("unique", "bincount with a fixed length")


_unique: Primitive = Primitive("unique", _unique_of, _unknown, NOT_DIFFERENTIABLE)


@method
def unique(x: Tensor, axis: int | None = None, sorted: bool = True) -> Unique:
    """The distinct elements (slices along `axis`), with first places, inverse and counts.

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


def _no_count(*_: object, **__: object) -> Any:
    raise DataDependentShape.of("nonzero", "ops.where")


_nonzero: Primitive = Primitive(
    "nonzero", lambda x: np.argwhere(x).astype(np.int64, copy=False), _no_count, NOT_DIFFERENTIABLE
)


@method
def nonzero(x: Tensor) -> Tensor:
    """The coordinates `(count, axes)` of the elements that are not zero.

    Raises:
        DataDependentShape: In a compiled function.
    """
    return _nonzero(as_tensor(x))


@method
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements `(count)` where the mask, which broadcasts with `x`, holds; a gradient flows back to them.

    Raises:
        DataDependentShape: In a compiled function.
    """
    x, mask = as_tensor(x), as_tensor(mask)
    both = broadcast_shapes(x.shape, mask.shape)
    whole = x if x.shape == both else broadcast_to(x, both)
    return whole[broadcast_to(cast_to(mask, bool_), both)]
