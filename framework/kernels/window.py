"""Sliding windows over images and volumes: gathered into columns, added back from columns, and pooled."""

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
    """The outputs whose input `offset + i stride` lies inside an axis of `length`: first, and one past the last."""
    first = 0 if offset >= 0 else (-offset + stride - 1) // stride
    last = (length - 1 - offset) // stride + 1 if offset < length else 0
    last = min(last, count)
    return min(first, last), last


@njit(inline="always")
def _clear_edges(target: Array, rows: int, columns: int, h0: int, h1: int, w0: int, w1: int) -> None:
    """Zeros where the window has left the image: rows outside h0..h1, columns outside w0..w1."""
    for k in range(h0 * columns):
        target[k] = 0
    for h in range(h0, h1):
        for w in range(w0):
            target[h * columns + w] = 0
        for w in range(w1, columns):
            target[h * columns + w] = 0
    for k in range(h1 * columns, rows * columns):
        target[k] = 0


@njit(inline="always")
def _copy_plane(
    plane: Array, target: Array, width: int, columns: int, top: int, left: int, stride: Triple, h: Pair, w: Pair
) -> None:
    """Rows `h` and columns `w` of the windows that start at `top`, `left`, copied from a plane."""
    if stride[1] == 1 and stride[2] == 1 and columns == width:
        shift = top * width + left
        for p in range(max(h[0] * columns, -shift), min(h[1] * columns, len(plane) - shift)):
            target[p] = plane[p + shift]
    else:
        for i in range(h[0], h[1]):
            source = (top + i * stride[1]) * width + left
            for j in range(w[0], w[1]):
                target[i * columns + j] = plane[source + j * stride[2]]


@njit(inline="always")
def _add_plane(
    source: Array, plane: Array, lengths: Triple, top: int, left: int, stride: Triple, h: Pair, w: Pair
) -> None:
    """The transpose of `_copy_plane`; `lengths` are width, rows, columns, and the edges of `source` are cleared."""
    width, rows, columns = lengths
    if stride[1] == 1 and stride[2] == 1 and columns == width:
        _clear_edges(source, rows, columns, h[0], h[1], w[0], w[1])
        shift = top * width + left
        for p in range(max(h[0] * columns, -shift), min(h[1] * columns, len(plane) - shift)):
            plane[p + shift] += source[p]
    else:
        for i in range(h[0], h[1]):
            target = (top + i * stride[1]) * width + left
            for j in range(w[0], w[1]):
                plane[target + j * stride[2]] += source[i * columns + j]


@njit(**JIT)
def gather_columns(
    x: Array, out: Array, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, size: Triple
) -> None:
    """`out[n, (c, k, i, j), (d, h, w)] = x[n, c, d stride + k dilation - padding, ...]`, 0 outside the volume.

    Where rows of the result are as long as rows of the image (stride 1, "same" padding), a plane of columns is the
    plane of the image shifted by a constant: one long copy, the edges cleared after it.
    """
    batch, channels, depth, height, width = x.shape
    planes, rows, columns = size
    area = rows * columns
    for n in range(batch):
        for c in range(channels):
            for k in range(kernel[0]):
                front = k * dilation[0] - padding[0]
                d0, d1 = _span(front, stride[0], depth, planes)
                for i in range(kernel[1]):
                    top = i * dilation[1] - padding[1]
                    h0, h1 = _span(top, stride[1], height, rows)
                    for j in range(kernel[2]):
                        left = j * dilation[2] - padding[2]
                        w0, w1 = _span(left, stride[2], width, columns)
                        volume = out[n, ((c * kernel[0] + k) * kernel[1] + i) * kernel[2] + j]
                        volume[: d0 * area] = 0
                        volume[d1 * area :] = 0
                        for d in range(d0, d1):
                            plane = x[n, c, front + d * stride[0]].reshape(height * width)
                            target = volume[d * area : (d + 1) * area]
                            _copy_plane(plane, target, width, columns, top, left, stride, (h0, h1), (w0, w1))
                            _clear_edges(target, rows, columns, h0, h1, w0, w1)


@njit(**JIT)
def add_columns(
    gathered: Array, out: Array, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, size: Triple
) -> None:
    """The transpose of `gather_columns`: every column element is added to the voxel it was taken from.

    The edges of `gathered` are cleared on the way.
    """
    batch, channels, depth, height, width = out.shape
    planes, rows, columns = size
    area = rows * columns
    for n in range(batch):
        for c in range(channels):
            out[n, c] = 0
            for k in range(kernel[0]):
                front = k * dilation[0] - padding[0]
                d0, d1 = _span(front, stride[0], depth, planes)
                for i in range(kernel[1]):
                    top = i * dilation[1] - padding[1]
                    h0, h1 = _span(top, stride[1], height, rows)
                    for j in range(kernel[2]):
                        left = j * dilation[2] - padding[2]
                        w0, w1 = _span(left, stride[2], width, columns)
                        volume = gathered[n, ((c * kernel[0] + k) * kernel[1] + i) * kernel[2] + j]
                        for d in range(d0, d1):
                            plane = out[n, c, front + d * stride[0]].reshape(height * width)
                            source = volume[d * area : (d + 1) * area]
                            _add_plane(source, plane, (width, rows, columns), top, left, stride, (h0, h1), (w0, w1))


@njit(**JIT)
def max_pool(x: Array, out: Array, places: Array, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """The largest element of each window of `x` (planes, height, width), and where in its plane it stands; NaN wins.

    Which element is larger cannot be predicted, so the choice is written to compile without a branch.
    """
    planes, height, width = x.shape
    rows, columns = out.shape[1:]
    for p in range(planes):
        plane = x[p].reshape(height * width)
        for h in range(rows):
            top = h * stride[0] - padding[0]
            i0, i1 = max(top, 0), min(top + kernel[0], height)
            for w in range(columns):
                left = w * stride[1] - padding[1]
                j0, j1 = max(left, 0), min(left + kernel[1], width)
                place = i0 * width + j0
                best = plane[place]
                for i in range(i0, i1):
                    for k in range(i * width + j0, i * width + j1):
                        value = plane[k]
                        wins = (value > best) | (value != value)
                        best = value if wins else best
                        place = k if wins else place
                out[p, h, w] = best
                places[p, h, w] = place


@njit(**JIT)
def put_places(g: Array, places: Array, out: Array) -> int:
    """The first place that does not exist, or -1 and `out[p, places[p, k]] += g[p, k]`, from zero."""
    planes, count = g.shape
    length = out.shape[1]
    for p in range(planes):
        out[p, :] = 0
        for k in range(count):
            place = places[p, k]
            if place < 0 or place >= length:
                return int(p * count + k)
            out[p, place] += g[p, k]
    return -1


@njit(**JIT)
def avg_pool(x: Array, out: Array, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """The mean of each window of `x` (planes, height, width); padding counts as zeros."""
    planes, height, width = x.shape
    rows, columns = out.shape[1:]
    share = x.dtype.type(1.0 / (kernel[0] * kernel[1]))
    for p in range(planes):
        for h in range(rows):
            for w in range(columns):
                total = x.dtype.type(0.0)
                for i in range(max(h * stride[0] - padding[0], 0), min(h * stride[0] - padding[0] + kernel[0], height)):
                    for j in range(
                        max(w * stride[1] - padding[1], 0), min(w * stride[1] - padding[1] + kernel[1], width)
                    ):
                        total += x[p, i, j]
                out[p, h, w] = total * share


@njit(**JIT)
def avg_pool_gradient(g: Array, out: Array, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """The transpose of `avg_pool`."""
    planes, height, width = out.shape
    rows, columns = g.shape[1:]
    share = g.dtype.type(1.0 / (kernel[0] * kernel[1]))
    for p in range(planes):
        out[p] = 0
        for h in range(rows):
            for w in range(columns):
                value = g[p, h, w] * share
                for i in range(max(h * stride[0] - padding[0], 0), min(h * stride[0] - padding[0] + kernel[0], height)):
                    for j in range(
                        max(w * stride[1] - padding[1], 0), min(w * stride[1] - padding[1] + kernel[1], width)
                    ):
                        out[p, i, j] += value
