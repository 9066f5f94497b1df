"""Order: the largest elements, distinct elements."""

from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor, wrap
from ..call import Call, array_of, whole_numbers
from ..registry import operator


@operator("TopK")
def top_k(call: Call, x: Tensor, k: Any = None) -> tuple[Tensor, Tensor]:
    """The `k` largest or smallest elements along an axis, and their places; of equals the first."""
    count = call.get("k") if k is None else whole_numbers(k)[0]
    axis = call.get("axis", -1) % x.ndim
    values, places = ops.topk(x, count, axis, largest=bool(call.get("largest", 1)))
    return values, ops.cast(places, "int64")


@operator("Unique")
def unique(call: Call, x: Any) -> tuple[Any, ...]:
    """The distinct elements (or slices along an axis), where each stands first, which one each is, and how many."""
    values = array_of(x)
    axis = call.get("axis")
    found, first, inverse, counts = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not call.get("sorted", 1):
        order = np.argsort(first)
        found = np.take(found, order, axis or 0)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, inverse, counts = first[order], rank[inverse], counts[order]
    numbers = (wrap(np.asarray(a, np.int64)) for a in (first, inverse, counts))
    return (wrap(found) if isinstance(x, Tensor) else found, *numbers)
