"""Sliding windows over images and volumes: gathered into columns, and added back from columns."""

from typing import TypeAlias

from numba import njit

from ..tensor import Array
from .exponential import JIT

# Of height and width.
Pair: TypeAlias = tuple[int, int]
# Of depth, height and width; an image is a volume of depth 1.
Triple: TypeAlias = tuple[int, int, int]


@njit(inline="always")
def _span(offset: int, stride: int, length: int, count: int) -> tuple[int, int]:
    """Return the outputs whose input `offset + i stride` lies inside an axis of `length`: first, and one past the
    last."""
    first = 0 if offset >= 0 else (-offset + stride - 1) // stride
    last = (length - 1 - offset) // stride + 1 if offset < length else 0
    last = min(last, count)
    return min(first, last), last


# The loops below run from 0 over slices: an index that could be negative would be checked for wrapping around, element
# by element, and nothing would become a vector instruction (measured: ten times the time).


@njit(inline="always")
def _clear(target: Array, start: int, count: int) -> None:
    part = target[start : start + count]
    for k in range(count):
        part[k] = 0


@njit(inline="always")
def _clear_columns(target: Array, start: int, columns: int, h: Pair, w: Pair) -> None:
    """Compute zeros in rows `h` wherever the column is not in `w`."""
    if w[0] > 0 or w[1] < columns:
        for i in range(h[0], h[1]):
            _clear(target, start + i * columns, w[0])
            _clear(target, start + i * columns + w[1], columns - w[1])


@njit(inline="always")
def _copy_plane(
    x: Array,
    source: int,
    target: Array,
    start: int,
    plane: Pair,
    size: Pair,
    corner: Pair,
    stride: Pair,
    h: Pair,
    w: Pair,
) -> None:
    """Compute one plane of the windows whose first element is at `corner`, from the plane of `x` that begins at
    `source`.

    Where rows of the result are as long as rows of the image (stride 1, "same" padding), that is the plane of the image
    shifted by a constant: one long copy, the edges cleared after it.
    """
    if stride[0] == 1 and stride[1] == 1 and size[1] == plane[1]:
        shift = corner[0] * plane[1] + corner[1]
        first = max(h[0] * size[1], -shift)
        count = min(h[1] * size[1], plane[0] * plane[1] - shift) - first
        from_, to = x[source + first + shift :], target[start + first :]
        for k in range(count):
            to[k] = from_[k]
    else:
        for i in range(h[0], h[1]):
            from_ = x[source + (corner[0] + i * stride[0]) * plane[1] + corner[1] + w[0] * stride[1] :]
            to = target[start + i * size[1] + w[0] :]
            for k in range(w[1] - w[0]):
                to[k] = from_[k * stride[1]]
    _clear(target, start, h[0] * size[1])
    _clear(target, start + h[1] * size[1], (size[0] - h[1]) * size[1])
    _clear_columns(target, start, size[1], h, w)


@njit(inline="always")
def _add_plane(
    x: Array,
    target: int,
    source: Array,
    start: int,
    plane: Pair,
    size: Pair,
    corner: Pair,
    stride: Pair,
    h: Pair,
    w: Pair,
) -> None:
    """Compute the transpose of `_copy_plane`: the plane of `x` that begins at `target` grows; edges of `source` are
    cleared."""
    if stride[0] == 1 and stride[1] == 1 and size[1] == plane[1]:
        _clear_columns(source, start, size[1], h, w)
        shift = corner[0] * plane[1] + corner[1]
        first = max(h[0] * size[1], -shift)
        count = min(h[1] * size[1], plane[0] * plane[1] - shift) - first
        to, from_ = x[target + first + shift :], source[start + first :]
        for k in range(count):
            to[k] += from_[k]
    else:
        for i in range(h[0], h[1]):
            to = x[target + (corner[0] + i * stride[0]) * plane[1] + corner[1] + w[0] * stride[1] :]
            from_ = source[start + i * size[1] + w[0] :]
            for k in range(w[1] - w[0]):
                to[k * stride[1]] += from_[k]


@njit(**JIT)
def gather_columns(
    x: Array, out: Array, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, size: Triple
) -> None:
    """Compute `out[n, (c, k, i, j), (d, h, w)] = x[n, c, d stride + k dilation - padding, ...]`, 0 outside the
    volume."""
    batch, channels, depth, height, width = x.shape
    images, columns = x.reshape(x.size), out.reshape(out.size)
    area, row = size[1] * size[2], 0
    for nc in range(batch * channels):
        for k in range(kernel[0]):
            front = k * dilation[0] - padding[0]
            d0, d1 = _span(front, stride[0], depth, size[0])
            for i in range(kernel[1]):
                top = i * dilation[1] - padding[1]
                h = _span(top, stride[1], height, size[1])
                for j in range(kernel[2]):
                    left = j * dilation[2] - padding[2]
                    w = _span(left, stride[2], width, size[2])
                    _clear(columns, row, d0 * area)
                    _clear(columns, row + d1 * area, (size[0] - d1) * area)
                    for d in range(d0, d1):
                        source = (nc * depth + front + d * stride[0]) * height * width
                        lengths, places, steps = (height, width), (size[1], size[2]), (stride[1], stride[2])
                        start = row + d * area
                        _copy_plane(images, source, columns, start, lengths, places, (top, left), steps, h, w)
                    row += size[0] * area


@njit(**JIT)
def add_columns(
    gathered: Array, out: Array, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, size: Triple
) -> None:
    """Compute the transpose of `gather_columns`: every column element is added to the voxel it was taken from.

    The edges of `gathered` are cleared on the way.
    """
    batch, channels, depth, height, width = out.shape
    images, columns = out.reshape(out.size), gathered.reshape(gathered.size)
    area, row = size[1] * size[2], 0
    for nc in range(batch * channels):
        _clear(images, nc * depth * height * width, depth * height * width)
        for k in range(kernel[0]):
            front = k * dilation[0] - padding[0]
            d0, d1 = _span(front, stride[0], depth, size[0])
            for i in range(kernel[1]):
                top = i * dilation[1] - padding[1]
                h = _span(top, stride[1], height, size[1])
                for j in range(kernel[2]):
                    left = j * dilation[2] - padding[2]
                    w = _span(left, stride[2], width, size[2])
                    for d in range(d0, d1):
                        target = (nc * depth + front + d * stride[0]) * height * width
                        lengths, places, steps = (height, width), (size[1], size[2]), (stride[1], stride[2])
                        start = row + d * area
                        _add_plane(images, target, columns, start, lengths, places, (top, left), steps, h, w)
                    row += size[0] * area
