"""Shapes: what moves elements or tells how many there are; words (arrays of objects) are moved too."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import ShapeError
from ...tensor import Array, Tensor, wrap
from ..call import Call, array_of, whole_numbers
from ..registry import operator

#: Tensors, and arrays of words.
Elements = Tensor | Array


def reshaped(x: Any, shape: Sequence[int]) -> Any:
    """The elements in another shape."""
    return x.reshape(tuple(shape)) if isinstance(x, np.ndarray) else ops.reshape(x, tuple(shape))


@operator("Shape")
def shape_of(call: Call, x: Any) -> Tensor:
    """The lengths of the axes from `start` to `end`, as int64."""
    return wrap(np.asarray(tuple(x.shape)[slice(call.get("start", 0), call.get("end"))], np.int64))


@operator("Size")
def size_of(call: Call, x: Any) -> Tensor:
    """The number of elements, as int64."""
    return wrap(np.asarray(math.prod(x.shape), np.int64))


@operator("Reshape", since=5)
def reshape(call: Call, x: Any, shape: Any) -> Any:
    """The elements in another shape: 0 keeps a length (unless `allowzero`), -1 takes what is left."""
    wanted = list(whole_numbers(shape))
    if not call.get("allowzero", 0):
        wanted = [x.shape[axis] if length == 0 else length for axis, length in enumerate(wanted)]
    return _reshape(x, wanted)


@operator("Reshape")
def reshape_to_attribute(call: Call, x: Any) -> Any:
    """The elements in the shape that the attribute gives."""
    return _reshape(x, [x.shape[i] if length == 0 else length for i, length in enumerate(call.get("shape"))])


def _reshape(x: Any, wanted: list[int]) -> Any:
    if -1 in wanted and 0 in wanted:  # no elements: what is left cannot be divided out
        wanted[wanted.index(-1)] = 0
    return reshaped(x, wanted)


@operator("Flatten")
def flatten(call: Call, x: Any) -> Any:
    """A matrix: axes before `axis` joined, and those from it on."""
    axis = call.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose")
def transpose(call: Call, x: Any) -> Any:
    """The axes in another order, reversed by default."""
    order = call.get("perm", tuple(range(x.ndim))[::-1])
    return x.transpose(order) if isinstance(x, np.ndarray) else ops.transpose(x, order)


def _axes(call: Call, axes: Any) -> tuple[int, ...] | None:
    """The axes from the input, or from the attribute of versions before 13."""
    if axes is not None:
        return whole_numbers(axes)
    given: tuple[int, ...] | None = call.get("axes")
    return given


@operator("Squeeze")
def squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    """The tensor without the axes named, of length 1; without all such axes by default."""
    given = _axes(call, axes)
    gone = [i for i, n in enumerate(x.shape) if n == 1] if given is None else [axis % x.ndim for axis in given]
    if any(x.shape[axis] != 1 for axis in gone):
        raise ShapeError(f"Squeeze expects length 1 along axes {given}, got shape {tuple(x.shape)}")
    return reshaped(x, [n for i, n in enumerate(x.shape) if i not in gone])


@operator("Unsqueeze")
def unsqueeze(call: Call, x: Any, axes: Any = None) -> Any:
    """The tensor with new axes of length 1 at the places named, counted in the result."""
    given = _axes(call, axes) or ()
    total = x.ndim + len(given)
    new = {axis % total for axis in given}
    lengths = iter(x.shape)
    return reshaped(x, [1 if axis in new else next(lengths) for axis in range(total)])


@operator("Concat")
def concat(call: Call, *parts: Any) -> Any:
    """The inputs one after the other along an axis."""
    axis = call.get("axis", 1 if call.version < 4 else 0)
    return concatenated(parts, axis)


def concatenated(parts: Sequence[Any], axis: int) -> Any:
    """The tensors, or arrays of words, one after the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis)
    return ops.concat(parts, axis)


@operator("Split")
def split(call: Call, x: Tensor, sizes: Any = None) -> tuple[Tensor, ...]:
    """The parts of an axis: of the sizes given, else as many as outputs are asked for, the last possibly smaller."""
    axis = call.get("axis", 0) % x.ndim
    given = whole_numbers(sizes) if sizes is not None else call.get("split")
    if given is None:
        given = equal_parts(x.shape[axis], call.get("num_outputs", len(call.outputs)))
    return ops.split(x, list(given), axis)


def equal_parts(length: int, count: int) -> tuple[int, ...]:
    """Sizes of `count` parts, equal but for the last."""
    size = -(-length // count)
    return tuple(max(0, min(size, length - size * i)) for i in range(count))


@operator("Expand")
def expand(call: Call, x: Any, shape: Any) -> Any:
    """The tensor repeated along axes of length 1; the shape may itself be stretched."""
    wanted = np.broadcast_shapes(tuple(x.shape), whole_numbers(shape))
    return np.broadcast_to(x, wanted) if isinstance(x, np.ndarray) else ops.broadcast_to(x, wanted)


@operator("Tile", since=6)
def tile(call: Call, x: Any, repeats: Any) -> Any:
    """The tensor repeated along each axis."""
    counts = whole_numbers(repeats)
    return np.tile(x, counts) if isinstance(x, np.ndarray) else ops.tile(x, counts)


def _slice_of(start: int, end: int, step: int, length: int) -> slice:
    """The slice that ONNX means; bounds outside of the axis are moved to its ends."""
    if step > 0:
        return slice(start, end, step)
    first = max(start + length, -1) if start < 0 else min(start, length - 1)
    last = max(end + length, -1) if end < 0 else min(end, length - 1)
    return slice(first, None if last < 0 else last, step) if first >= 0 else slice(0, 0)


@operator("Slice", since=10)
def slice_(call: Call, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Elements from `starts` to `ends` (not included) by `steps` along `axes`."""
    first, last = whole_numbers(starts), whole_numbers(ends)
    where = range(len(first)) if axes is None else whole_numbers(axes)
    return _sliced(x, first, last, where, (1,) * len(first) if steps is None else whole_numbers(steps))


@operator("Slice")
def slice_by_attributes(call: Call, x: Any) -> Any:
    """Elements from `starts` to `ends` (not included) along `axes`."""
    starts, ends = call.get("starts"), call.get("ends")
    return _sliced(x, starts, ends, call.get("axes", range(len(starts))), (1,) * len(starts))


def _sliced(x: Any, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> Any:
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis % x.ndim] = _slice_of(start, end, step, x.shape[axis % x.ndim])
    return x[tuple(index)]


@operator("DepthToSpace")
def depth_to_space(call: Call, x: Tensor) -> Tensor:
    """Channels laid out as blocks of pixels."""
    n, c, h, w = x.shape
    block = call.get("blocksize")
    if call.get("mode", "DCR") == "DCR":
        parts = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // block**2, h * block, w * block)


@operator("SpaceToDepth")
def space_to_depth(call: Call, x: Tensor) -> Tensor:
    """Blocks of pixels laid out as channels."""
    n, c, h, w = x.shape
    block = call.get("blocksize")
    blocks = x.reshape(n, c, h // block, block, w // block, block)
    order = (0, 1, 3, 5, 2, 4) if call.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return blocks.transpose(order).reshape(n, c * block**2, h // block, w // block)


@operator("CenterCropPad")
def center_crop_pad(call: Call, x: Tensor, shape: Any) -> Tensor:
    """The middle of the tensor, cut or surrounded by zeros to the lengths given."""
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
def reverse_sequence(call: Call, x: Tensor, lengths: Tensor) -> Tensor:
    """The first `lengths[b]` elements of each batch entry along the time axis, in reverse order."""
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    steps, many = x.shape[time], x.shape[batch]
    numbers = np.arange(steps)[:, None]
    counts = array_of(lengths).reshape(1, -1)
    order = np.where(numbers < counts, counts - 1 - numbers, numbers)
    by_time = ops.transpose(x, (time, batch, *(axis for axis in range(x.ndim) if axis not in (time, batch))))
    turned = by_time[wrap(order), wrap(np.arange(many)[None, :])]
    back = np.argsort((time, batch, *(axis for axis in range(x.ndim) if axis not in (time, batch))))
    return ops.transpose(turned, tuple(int(axis) for axis in back))
