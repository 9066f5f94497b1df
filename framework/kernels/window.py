"""Sliding windows over images: gathered into columns, added back from columns, and pooled."""

from typing import TypeAlias

from numba import njit

from ..tensor import Array
from .exponential import JIT

# Of height and width.
Pair: TypeAlias = tuple[int, int]


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


@njit(**JIT)
def gather_columns(x: Array, out: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, size: Pair) -> None:
    """`out[n, (c, i, j), (h, w)] = x[n, c, h stride + i dilation - padding, ...]`, 0 outside the image.

    Where rows of the result are as long as rows of the image (stride 1, "same" padding), a plane of columns is the
    plane of the image shifted by a constant: one long copy, the edges cleared after it.
    """
    batch, channels, height, width = x.shape
    rows, columns = size
    is_shift = stride[0] == 1 and stride[1] == 1 and columns == width
    for n in range(batch):
        for c in range(channels):
            plane = x[n, c].reshape(height * width)
            for i in range(kernel[0]):
                top = i * dilation[0] - padding[0]
                h0, h1 = _span(top, stride[0], height, rows)
                for j in range(kernel[1]):
                    left = j * dilation[1] - padding[1]
                    w0, w1 = _span(left, stride[1], width, columns)
                    target = out[n, (c * kernel[0] + i) * kernel[1] + j]
                    if is_shift:
                        shift = top * width + left
                        for k in range(max(h0 * columns, -shift), min(h1 * columns, height * width - shift)):
                            target[k] = plane[k + shift]
                    else:
                        for h in range(h0, h1):
                            source = (top + h * stride[0]) * width + left
                            for w in range(w0, w1):
                                target[h * columns + w] = plane[source + w * stride[1]]
                    _clear_edges(target, rows, columns, h0, h1, w0, w1)


@njit(**JIT)
def add_columns(
    gathered: Array, out: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, size: Pair
) -> None:
    """The transpose of `gather_columns`: every column element is added to the pixel it was taken from.

    The edges of `gathered` are cleared on the way.
    """
    batch, channels, height, width = out.shape
    rows, columns = size
    is_shift = stride[0] == 1 and stride[1] == 1 and columns == width
    for n in range(batch):
        for c in range(channels):
            plane = out[n, c].reshape(height * width)
            for k in range(height * width):
                plane[k] = 0
            for i in range(kernel[0]):
                top = i * dilation[0] - padding[0]
                h0, h1 = _span(top, stride[0], height, rows)
                for j in range(kernel[1]):
                    left = j * dilation[1] - padding[1]
                    w0, w1 = _span(left, stride[1], width, columns)
                    source = gathered[n, (c * kernel[0] + i) * kernel[1] + j]
                    if is_shift:
                        _clear_edges(source, rows, columns, h0, h1, w0, w1)
                        shift = top * width + left
                        for k in range(max(h0 * columns, -shift), min(h1 * columns, height * width - shift)):
                            plane[k + shift] += source[k]
                    else:
                        for h in range(h0, h1):
                            target = (top + h * stride[0]) * width + left
                            for w in range(w0, w1):
                                plane[target + w * stride[1]] += source[h * columns + w]


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
def put_places(g: Array, places: Array, out: Array) -> None:
    """`out[p, places[p, k]] += g[p, k]`, from zero."""
    planes, count = g.shape
    for p in range(planes):
        out[p, :] = 0
        for k in range(count):
            out[p, places[p, k]] += g[p, k]


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
