"""Sliding windows over images: gathered into columns, added back from columns, and pooled."""

import numpy as np
from numba import njit

from ..tensor import Array
from .exponential import JIT


@njit(inline="always")
def _span(offset: int, stride: int, length: int, count: int) -> tuple[int, int]:
    """The outputs whose input `offset + i stride` lies inside an axis of `length`: first, and one past the last."""
    first = 0 if offset >= 0 else (-offset + stride - 1) // stride
    last = (length - 1 - offset) // stride + 1 if offset < length else 0
    last = min(last, count)
    return min(first, last), last


@njit(**JIT)
def gather_columns(
    x: Array,
    out: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    size: tuple[int, int],
) -> None:
    """`out[n, (c, i, j), (h, w)] = x[n, c, h stride + i dilation - padding, ...]`, 0 outside the image."""
    batch, channels, height, width = x.shape
    kh, kw = kernel
    rows, columns = size
    for n in range(batch):
        for c in range(channels):
            for i in range(kh):
                top = i * dilation[0] - padding[0]
                h0, h1 = _span(top, stride[0], height, rows)
                for j in range(kw):
                    left = j * dilation[1] - padding[1]
                    w0, w1 = _span(left, stride[1], width, columns)
                    target = out[n, (c * kh + i) * kw + j]
                    target[: h0 * columns] = 0
                    for h in range(h0, h1):
                        source = x[n, c, top + h * stride[0]]
                        start = h * columns
                        target[start : start + w0] = 0
                        if stride[1] == 1:
                            for w in range(w0, w1):
                                target[start + w] = source[left + w]
                        else:
                            for w in range(w0, w1):
                                target[start + w] = source[left + w * stride[1]]
                        target[start + w1 : start + columns] = 0
                    target[h1 * columns :] = 0


@njit(**JIT)
def add_columns(
    columns_in: Array,
    out: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    size: tuple[int, int],
) -> None:
    """The transpose of `gather_columns`: every column element is added to the pixel it was taken from."""
    batch, channels, height, width = out.shape
    kh, kw = kernel
    rows, columns = size
    for n in range(batch):
        for c in range(channels):
            out[n, c] = 0
            for i in range(kh):
                top = i * dilation[0] - padding[0]
                h0, h1 = _span(top, stride[0], height, rows)
                for j in range(kw):
                    left = j * dilation[1] - padding[1]
                    w0, w1 = _span(left, stride[1], width, columns)
                    source = columns_in[n, (c * kh + i) * kw + j]
                    for h in range(h0, h1):
                        target = out[n, c, top + h * stride[0]]
                        start = h * columns
                        if stride[1] == 1:
                            for w in range(w0, w1):
                                target[left + w] += source[start + w]
                        else:
                            for w in range(w0, w1):
                                target[left + w * stride[1]] += source[start + w]


@njit(**JIT)
def max_pool(
    x: Array, out: Array, places: Array, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
) -> None:
    """The largest element of each window of `x` (planes, height, width), and where in its plane it stands; NaN wins."""
    planes, height, width = x.shape
    rows, columns = out.shape[1:]
    for p in range(planes):
        for h in range(rows):
            for w in range(columns):
                best = x.dtype.type(-np.inf)
                place = -1
                for i in range(max(h * stride[0] - padding[0], 0), min(h * stride[0] - padding[0] + kernel[0], height)):
                    for j in range(
                        max(w * stride[1] - padding[1], 0), min(w * stride[1] - padding[1] + kernel[1], width)
                    ):
                        value = x[p, i, j]
                        if place < 0 or value > best or (value != value and best == best):
                            best = value
                            place = i * width + j
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
def avg_pool(x: Array, out: Array, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> None:
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
def avg_pool_gradient(
    g: Array, out: Array, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
) -> None:
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
