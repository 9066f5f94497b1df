"""Elements by their place: gathered, scattered, padded, masked."""

from typing import Any

import numpy as np

from ... import ops
from ...errors import ShapeError
from ...tensor import Tensor, wrap
from ..call import Call, array_of, whole_numbers
from ..registry import operator


@operator("Gather")
def gather(call: Call, x: Any, indices: Tensor) -> Any:
    """Elements along an axis at the indices, which may count from the end."""
    axis = call.get("axis", 0) % x.ndim
    if isinstance(x, np.ndarray):
        return np.asarray(np.take(x, array_of(indices), axis), object)
    return x[(*(slice(None),) * axis, indices)]


@operator("GatherElements")
def gather_elements(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    """For each place the element whose coordinate along an axis the index gives."""
    return ops.gather_elements(x, indices, call.get("axis", 0))


@operator("GatherND")
def gather_nd(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    """Elements or slices at coordinates, the first `batch_dims` axes side by side."""
    return ops.gather_nd(x, indices, call.get("batch_dims", 0))


@operator("Scatter")
@operator("ScatterElements")
def scatter_elements(call: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """The tensor with updates at the places whose coordinate along an axis the index gives."""
    return ops.scatter_elements(x, indices, updates, call.get("axis", 0), call.get("reduction", "none"))


@operator("ScatterND")
def scatter_nd(call: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """The tensor with updates, elements or slices, at coordinates."""
    return ops.scatter_nd(x, indices, updates, call.get("reduction", "none"))


@operator("TensorScatter")
def tensor_scatter(call: Call, past: Tensor, update: Tensor, starts: Any = None) -> Tensor:
    """A cache with new entries written along an axis from a place of its own for each batch entry."""
    axis, mode = call.get("axis", -2) % past.ndim, call.get("mode", "linear")
    length, many = past.shape[axis], update.shape[axis]
    first = np.zeros(past.shape[0], np.int64) if starts is None else array_of(starts)
    where = first[:, None] + np.arange(many)
    where = where % length if mode == "circular" else where
    if where.size and where.max() >= length:
        raise ShapeError(f"TensorScatter writes up to place {where.max()} of an axis of {length}; use mode circular")
    shape = (past.shape[0], *(many if i == axis else 1 for i in range(1, past.ndim)))
    indices = wrap(np.broadcast_to(where.reshape(shape), update.shape).copy())
    return ops.scatter_elements(past, indices, update, axis)


@operator("OneHot")
def one_hot(call: Call, indices: Tensor, depth: Any, values: Tensor) -> Tensor:
    """A new axis of length `depth` with the on-value at the index, the off-value elsewhere."""
    length = int(array_of(depth).reshape(-1)[0])
    axis = call.get("axis", -1) % (indices.ndim + 1)
    places = ops.cast(indices, "int64")
    places = ops.where(ops.less(places, 0), places + length, places)
    line = wrap(np.arange(length).reshape(*(-1 if i == axis else 1 for i in range(indices.ndim + 1))))
    return ops.where(ops.equal(ops.expand_dims(places, axis), line), values[1], values[0])


@operator("NonZero")
def non_zero(call: Call, x: Any) -> Tensor:
    """The coordinates of the elements that are not zero, one column each."""
    found = np.stack(np.nonzero(np.atleast_1d(array_of(x)))) if x.ndim else np.zeros((0, int(bool(array_of(x)))))
    return wrap(found.astype(np.int64))


@operator("Compress")
def compress(call: Call, x: Tensor, condition: Any) -> Tensor:
    """The elements, or slices along an axis, where the condition holds."""
    kept = np.flatnonzero(array_of(condition))
    if "axis" not in call.attributes:
        return x.reshape(-1)[wrap(kept)]
    return x[(*(slice(None),) * (call.get("axis") % x.ndim), wrap(kept))]


@operator("Trilu")
def triangle(call: Call, x: Tensor, k: Any = None) -> Tensor:
    """The upper or lower triangle of matrices, zeros elsewhere."""
    edge = 0 if k is None else int(array_of(k).item())
    return ops.triu(x, edge) if call.get("upper", 1) else ops.tril(x, edge)


@operator("Pad", since=11)
def pad(call: Call, x: Tensor, pads: Any, value: Any = None, axes: Any = None) -> Tensor:
    """The tensor with more (or fewer) elements on each side: constant, edge, mirrored, or from the other end."""
    where = range(x.ndim) if axes is None else [axis % x.ndim for axis in whole_numbers(axes)]
    widths = whole_numbers(pads)
    count = len(widths) // 2
    sides = [(0, 0)] * x.ndim
    for i, axis in enumerate(where):
        sides[axis] = (widths[i], widths[count + i])
    filling = 0 if value is None or not array_of(value).size else array_of(value).reshape(-1)[0].item()
    return ops.pad(x, sides, call.get("mode", "constant"), filling)


@operator("Pad")
def pad_by_attributes(call: Call, x: Tensor) -> Tensor:
    """The tensor with more elements on each side, as the attributes say."""
    widths = call.get("pads", call.get("paddings"))
    sides = list(zip(widths[: x.ndim], widths[x.ndim :], strict=True))
    return ops.pad(x, sides, call.get("mode", "constant"), call.get("value", 0.0))
