"""Operators that move elements or report shapes: reshape, concat, gather, scatter, pad."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import ShapeError
from ...tensor import Tensor, wrap
from ..operator_call import Elements, OperatorCall, array_of, operator, whole_numbers


def reshaped(x: Elements, shape: Sequence[int]) -> Elements:
    """Return the elements in another shape."""
    return x.reshape(tuple(shape)) if isinstance(x, np.ndarray) else ops.reshape(x, tuple(shape))


@operator("Shape")
def shape_of(call: OperatorCall, x: Elements) -> Tensor:
    """Return the lengths of the axes from `start` to `end`, as int64."""
    return wrap(np.asarray(tuple(x.shape)[slice(call.get("start", 0), call.get("end"))], np.int64))


@operator("Size")
def size_of(call: OperatorCall, x: Elements) -> Tensor:
    """Return the number of elements, as int64."""
    return wrap(np.asarray(math.prod(x.shape), np.int64))


@operator("Reshape", since=5)
def reshape(call: OperatorCall, x: Elements, shape: Elements) -> Elements:
    """Return the elements in another shape: 0 keeps a length (unless `allowzero`), -1 takes what is left."""
    wanted = list(whole_numbers(shape))
    if not call.get("allowzero", 0):
        wanted = [x.shape[axis] if length == 0 else length for axis, length in enumerate(wanted)]
    return _reshape(x, wanted)


@operator("Reshape")
def reshape_to_attribute(call: OperatorCall, x: Elements) -> Elements:
    """Return the elements in the shape that the attribute gives."""
    return _reshape(x, [x.shape[i] if length == 0 else length for i, length in enumerate(call.get("shape"))])


def _reshape(x: Elements, wanted: list[int]) -> Elements:
    if -1 in wanted and 0 in wanted:  # no elements: what is left cannot be divided out
        wanted[wanted.index(-1)] = 0
    return reshaped(x, wanted)


@operator("Flatten")
def flatten(call: OperatorCall, x: Elements) -> Elements:
    """Return a matrix: axes before `axis` joined, and those from it on."""
    axis = call.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose")
def transpose(call: OperatorCall, x: Elements) -> Elements:
    """Return the axes in another order, reversed by default."""
    order = call.get("perm", tuple(range(x.ndim))[::-1])
    return x.transpose(order) if isinstance(x, np.ndarray) else ops.transpose(x, order)


def _axes(call: OperatorCall, axes: Elements | None) -> tuple[int, ...] | None:
    """Return the axes from the input, or from the attribute of versions before 13."""
    if axes is not None:
        return whole_numbers(axes)
    given: tuple[int, ...] | None = call.get("axes")
    return given


@operator("Squeeze")
def squeeze(call: OperatorCall, x: Elements, axes: Elements | None = None) -> Elements:
    """Return the tensor without the axes named, of length 1; without all such axes by default."""
    given = _axes(call, axes)
    gone = [i for i, n in enumerate(x.shape) if n == 1] if given is None else [axis % x.ndim for axis in given]
    if any(x.shape[axis] != 1 for axis in gone):
        raise ShapeError(f"Squeeze expects length 1 along axes {given}, got shape {tuple(x.shape)}")
    return reshaped(x, [n for i, n in enumerate(x.shape) if i not in gone])


@operator("Unsqueeze")
def unsqueeze(call: OperatorCall, x: Elements, axes: Elements | None = None) -> Elements:
    """Return the tensor with new axes of length 1 at the places named, counted in the result."""
    given = _axes(call, axes) or ()
    total = x.ndim + len(given)
    new = {axis % total for axis in given}
    lengths = iter(x.shape)
    return reshaped(x, [1 if axis in new else next(lengths) for axis in range(total)])


@operator("Concat")
def concat(call: OperatorCall, *parts: Elements) -> Elements:
    """Return the inputs one after the other along an axis."""
    axis = call.get("axis", 1 if call.version < 4 else 0)
    return concatenated(parts, axis)


def concatenated(parts: Sequence[Any], axis: int) -> Elements:
    """Return the tensors, or arrays of words, one after the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis)
    return ops.concat(parts, axis)


@operator("Split")
def split(call: OperatorCall, x: Tensor, sizes: Elements | None = None) -> tuple[Tensor, ...]:
    """Return the parts of an axis: of the sizes given, else as many as outputs are asked for, the last possibly
    smaller."""
    axis = call.get("axis", 0) % x.ndim
    given = whole_numbers(sizes) if sizes is not None else call.get("split")
    if given is None:
        given = equal_parts(x.shape[axis], call.get("num_outputs", len(call.outputs)))
    return ops.split(x, list(given), axis)


def equal_parts(length: int, count: int) -> tuple[int, ...]:
    """Return sizes of `count` parts, equal but for the last."""
    size = -(-length // count)
    return tuple(max(0, min(size, length - size * i)) for i in range(count))


@operator("Expand")
def expand(call: OperatorCall, x: Elements, shape: Elements) -> Elements:
    """Return the tensor repeated along axes of length 1; the shape may itself be stretched."""
    wanted = np.broadcast_shapes(tuple(x.shape), whole_numbers(shape))
    return np.broadcast_to(x, wanted) if isinstance(x, np.ndarray) else ops.broadcast_to(x, wanted)


@operator("Tile", since=6)
def tile(call: OperatorCall, x: Elements, repeats: Elements) -> Elements:
    """Return the tensor repeated along each axis."""
    counts = whole_numbers(repeats)
    return np.tile(x, counts) if isinstance(x, np.ndarray) else ops.tile(x, counts)


def _slice_of(start: int, end: int, step: int, length: int) -> slice:
    """Return the slice that ONNX means; bounds outside of the axis are moved to its ends."""
    if step > 0:
        return slice(start, end, step)
    first = max(start + length, -1) if start < 0 else min(start, length - 1)
    last = max(end + length, -1) if end < 0 else min(end, length - 1)
    return slice(first, None if last < 0 else last, step) if first >= 0 else slice(0, 0)


@operator("Slice", since=10)
def slice_(
    call: OperatorCall,
    x: Elements,
    starts: Elements,
    ends: Elements,
    axes: Elements | None = None,
    steps: Elements | None = None,
) -> Elements:
    """Return elements from `starts` to `ends` (not included) by `steps` along `axes`."""
    first, last = whole_numbers(starts), whole_numbers(ends)
    where = range(len(first)) if axes is None else whole_numbers(axes)
    return _sliced(x, first, last, where, (1,) * len(first) if steps is None else whole_numbers(steps))


@operator("Slice")
def slice_by_attributes(call: OperatorCall, x: Elements) -> Elements:
    """Return elements from `starts` to `ends` (not included) along `axes`."""
    starts, ends = call.get("starts"), call.get("ends")
    return _sliced(x, starts, ends, call.get("axes", range(len(starts))), (1,) * len(starts))


def _sliced(
    x: Elements, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Elements:
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis % x.ndim] = _slice_of(start, end, step, x.shape[axis % x.ndim])
    return x[tuple(index)]


@operator("DepthToSpace")
def depth_to_space(call: OperatorCall, x: Tensor) -> Tensor:
    """Return channels laid out as blocks of pixels."""
    n, c, h, w = x.shape
    block = call.get("blocksize")
    if call.get("mode", "DCR") == "DCR":
        parts = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // block**2, h * block, w * block)


@operator("SpaceToDepth")
def space_to_depth(call: OperatorCall, x: Tensor) -> Tensor:
    """Return blocks of pixels laid out as channels."""
    n, c, h, w = x.shape
    block = call.get("blocksize")
    blocks = x.reshape(n, c, h // block, block, w // block, block)
    order = (0, 1, 3, 5, 2, 4) if call.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return blocks.transpose(order).reshape(n, c * block**2, h // block, w // block)


@operator("CenterCropPad")
def center_crop_pad(call: OperatorCall, x: Tensor, shape: Elements) -> Tensor:
    """Return the middle of the tensor, cut or surrounded by zeros to the lengths given."""
    wanted = whole_numbers(shape)
    for axis, length in zip(call.get("axes", range(len(wanted))), wanted, strict=True):
        place = axis % x.ndim
        more = length - x.shape[place]
        if more > 0:
            widths = [(0, 0)] * x.ndim
            widths[place] = (more // 2, more - more // 2)
            x = ops.pad(x, widths)
        elif more < 0:
            start = (x.shape[place] - length) // 2
            x = ops.narrow(x, place, start, start + length)
    return x


@operator("ReverseSequence")
def reverse_sequence(call: OperatorCall, x: Tensor, lengths: Tensor) -> Tensor:
    """Return the first `lengths[b]` elements of each batch entry along the time axis, in reverse order."""
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    steps, many = x.shape[time], x.shape[batch]
    numbers = np.arange(steps)[:, None]
    counts = array_of(lengths).reshape(1, -1)
    order = np.where(numbers < counts, counts - 1 - numbers, numbers)
    by_time = ops.transpose(x, (time, batch, *(axis for axis in range(x.ndim) if axis not in (time, batch))))
    turned = by_time[wrap(order), wrap(np.arange(many)[None, :])]
    back = np.argsort((time, batch, *(axis for axis in range(x.ndim) if axis not in (time, batch))))
    return ops.transpose(turned, tuple(int(axis) for axis in back))


@operator("Gather")
def gather(call: OperatorCall, x: Elements, indices: Tensor) -> Elements:
    """Return elements along an axis at the indices, which may count from the end."""
    axis = call.get("axis", 0) % x.ndim
    if isinstance(x, np.ndarray):
        return np.asarray(np.take(x, array_of(indices), axis), object)
    return x[(*(slice(None),) * axis, indices)]


@operator("GatherElements")
def gather_elements(call: OperatorCall, x: Tensor, indices: Tensor) -> Tensor:
    """Gather for each place the element whose coordinate along an axis the index gives."""
    return ops.gather_elements(x, indices, call.get("axis", 0))


@operator("GatherND")
def gather_nd(call: OperatorCall, x: Tensor, indices: Tensor) -> Tensor:
    """Return elements or slices at coordinates, the first `batch_dims` axes side by side."""
    return ops.gather_nd(x, indices, call.get("batch_dims", 0))


@operator("Scatter")
@operator("ScatterElements")
def scatter_elements(call: OperatorCall, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Return the tensor with updates at the places whose coordinate along an axis the index gives."""
    return ops.scatter_elements(x, indices, updates, call.get("axis", 0), call.get("reduction", "none"))


@operator("ScatterND")
def scatter_nd(call: OperatorCall, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Return the tensor with updates, elements or slices, at coordinates."""
    return ops.scatter_nd(x, indices, updates, call.get("reduction", "none"))


@operator("TensorScatter")
def tensor_scatter(call: OperatorCall, past: Tensor, update: Tensor, starts: Elements | None = None) -> Tensor:
    """Return a cache with new entries written along an axis from a place of its own for each batch entry."""
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
def one_hot(call: OperatorCall, indices: Tensor, depth: Elements, values: Tensor) -> Tensor:
    """Return a new axis of length `depth` with the on-value at the index, the off-value elsewhere."""
    length = int(array_of(depth).reshape(-1)[0])
    axis = call.get("axis", -1) % (indices.ndim + 1)
    places = ops.cast(indices, "int64")
    places = ops.where(ops.less(places, 0), places + length, places)
    line = wrap(np.arange(length).reshape(*(-1 if i == axis else 1 for i in range(indices.ndim + 1))))
    return ops.where(ops.equal(ops.expand_dims(places, axis), line), values[1], values[0])


@operator("NonZero")
def non_zero(call: OperatorCall, x: Elements) -> Tensor:
    """Return the coordinates of the elements that are not zero, one column each."""
    found = np.stack(np.nonzero(np.atleast_1d(array_of(x)))) if x.ndim else np.zeros((0, int(bool(array_of(x)))))
    return wrap(found.astype(np.int64))


@operator("Compress")
def compress(call: OperatorCall, x: Tensor, condition: Elements) -> Tensor:
    """Return the elements, or slices along an axis, where the condition holds."""
    kept = np.flatnonzero(array_of(condition))
    if "axis" not in call.attributes:
        return x.reshape(-1)[wrap(kept)]
    return x[(*(slice(None),) * (call.get("axis") % x.ndim), wrap(kept))]


@operator("Trilu")
def triangle(call: OperatorCall, x: Tensor, k: Elements | None = None) -> Tensor:
    """Return the upper or lower triangle of matrices, zeros elsewhere."""
    edge = 0 if k is None else int(array_of(k).item())
    return ops.triu(x, edge) if call.get("upper", 1) else ops.tril(x, edge)


@operator("Pad", since=11)
def pad(
    call: OperatorCall, x: Tensor, pads: Elements, value: Elements | None = None, axes: Elements | None = None
) -> Tensor:
    """Return the tensor with more (or fewer) elements on each side: constant, edge, mirrored, or from the other end."""
    where = range(x.ndim) if axes is None else [axis % x.ndim for axis in whole_numbers(axes)]
    widths = whole_numbers(pads)
    count = len(widths) // 2
    sides = [(0, 0)] * x.ndim
    for i, axis in enumerate(where):
        sides[axis] = (widths[i], widths[count + i])
    filling = 0 if value is None or not array_of(value).size else array_of(value).reshape(-1)[0].item()
    return ops.pad(x, sides, call.get("mode", "constant"), filling)


@operator("Pad")
def pad_by_attributes(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the tensor with more elements on each side, as the attributes say."""
    widths = call.get("pads", call.get("paddings"))
    sides = list(zip(widths[: x.ndim], widths[x.ndim :], strict=True))
    return ops.pad(x, sides, call.get("mode", "constant"), call.get("value", 0.0))
