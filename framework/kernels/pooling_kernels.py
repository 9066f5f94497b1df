"""Pooling over images and volumes; half-size maximum pooling has a loop of its own without a branch."""

from typing import TypeAlias

import numpy as np
from numba import njit

from ..tensor import Array
from .exponential import JIT

# Of height and width.
Pair: TypeAlias = tuple[int, int]
# Of depth, height and width; an image is a volume of depth 1, a row one of height 1 as well.
Triple: TypeAlias = tuple[int, int, int]


@njit(**JIT)
def max_pool(x: Array, out: Array, places: Array, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """Compute the largest element of each window of `x` (planes, height, width), and where in its plane it stands; NaN
    wins.

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
    """Return the first place that does not exist, or -1 and `out[p, places[p, k]] += g[p, k]`, from zero; -1 is
    nowhere."""
    planes, count = g.shape
    length = out.shape[1]
    for p in range(planes):
        out[p, :] = 0
        for k in range(count):
            place = places[p, k]
            if place < -1 or place >= length:
                return int(p * count + k)
            if place >= 0:
                out[p, place] += g[p, k]
    return -1


@njit(**JIT)
def avg_pool(x: Array, out: Array, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """Compute the mean of each window of `x` (planes, height, width); padding counts as zeros."""
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
    """Compute the transpose of `avg_pool`."""
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


@njit(**JIT)
def max_pool_halves(x: Array, out: Array, places: Array) -> None:
    """Find the largest of each four elements of `x` (planes, height, width), and its place in its plane; NaN wins."""
    planes, rows, columns = out.shape
    width = x.shape[2]
    for p in range(planes):
        for h in range(rows):
            upper, lower = x[p, 2 * h], x[p, 2 * h + 1]
            values, where = out[p, h], places[p, h]
            start = 2 * h * width
            for w in range(columns):
                a, b, c, d = upper[2 * w], upper[2 * w + 1], lower[2 * w], lower[2 * w + 1]
                best, place = a, 0
                wins = (b > best) | (b != b)
                best, place = (b, 1) if wins else (best, place)
                wins = (c > best) | (c != c)
                best, place = (c, width) if wins else (best, place)
                wins = (d > best) | (d != d)
                best, place = (d, width + 1) if wins else (best, place)
                values[w] = best
                where[w] = start + 2 * w + place


@njit(inline="always")
def _inside(start: int, kernel: int, dilation: int, low: int, high: int) -> tuple[int, int]:
    """Return which elements `start + k dilation`, k below `kernel`, lie from `low` up to `high`: first, past the
    last."""
    first = 0 if start >= low else (low - start + dilation - 1) // dilation
    last = (high - 1 - start) // dilation + 1 if start < high else 0
    last = min(last, kernel)
    return min(first, last), last


@njit(**JIT)
def volume_max_pool(
    x: Array, out: Array, places: Array, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple
) -> None:
    """Compute the largest element of each window of `x` (planes, depth, height, width) and its place in its plane; NaN
    wins.

    A window whose elements all lie in the padding gives minus infinity and the place -1.
    """
    planes, depth, height, width = x.shape
    for p in range(planes):
        plane = x[p].reshape(depth * height * width)
        for d in range(out.shape[1]):
            front = d * stride[0] - padding[0]
            d0, d1 = _inside(front, kernel[0], dilation[0], 0, depth)
            for h in range(out.shape[2]):
                top = h * stride[1] - padding[1]
                h0, h1 = _inside(top, kernel[1], dilation[1], 0, height)
                for w in range(out.shape[3]):
                    left = w * stride[2] - padding[2]
                    w0, w1 = _inside(left, kernel[2], dilation[2], 0, width)
                    if d0 == d1 or h0 == h1 or w0 == w1:
                        out[p, d, h, w] = -np.inf
                        places[p, d, h, w] = -1
                        continue
                    place = ((front + d0 * dilation[0]) * height + top + h0 * dilation[1]) * width
                    place += left + w0 * dilation[2]
                    best = plane[place]
                    for i in range(d0, d1):
                        for j in range(h0, h1):
                            row = ((front + i * dilation[0]) * height + top + j * dilation[1]) * width + left
                            for k in range(w0, w1):
                                value = plane[row + k * dilation[2]]
                                wins = (value > best) | ((value != value) & (best == best))
                                best = value if wins else best
                                place = row + k * dilation[2] if wins else place
                    out[p, d, h, w] = best
                    places[p, d, h, w] = place


@njit(inline="always")
def _share(
    starts: Triple,
    lengths: Triple,
    kernel: Triple,
    padding: Triple,
    dilation: Triple,
    after: Triple,
    divisor: int,
) -> float:
    """Return one over what the sum of the window that starts at `starts` is divided by (0: 1, 1: inside, 2: padded)."""
    if divisor == 0:
        return 1.0
    count = 1
    for axis in range(3):
        low = -padding[axis] if divisor == 2 else 0
        high = lengths[axis] + after[axis] if divisor == 2 else lengths[axis]
        first, last = _inside(starts[axis], kernel[axis], dilation[axis], low, high)
        count *= last - first
    return 1.0 / max(count, 1)


@njit(**JIT)
def volume_avg_pool(
    x: Array,
    out: Array,
    kernel: Triple,
    stride: Triple,
    padding: Triple,
    dilation: Triple,
    after: Triple,
    divisor: int,
) -> None:
    """Compute the sum of each window of `x` (planes, depth, height, width), divided as `divisor` says."""
    lengths = x.shape[1:]
    for d in range(out.shape[1]):
        front = d * stride[0] - padding[0]
        d0, d1 = _inside(front, kernel[0], dilation[0], 0, lengths[0])
        for h in range(out.shape[2]):
            top = h * stride[1] - padding[1]
            h0, h1 = _inside(top, kernel[1], dilation[1], 0, lengths[1])
            for w in range(out.shape[3]):
                left = w * stride[2] - padding[2]
                w0, w1 = _inside(left, kernel[2], dilation[2], 0, lengths[2])
                share = _share((front, top, left), lengths, kernel, padding, dilation, after, divisor)
                for p in range(x.shape[0]):
                    total = x.dtype.type(0.0)
                    for i in range(d0, d1):
                        for j in range(h0, h1):
                            for k in range(w0, w1):
                                total += x[p, front + i * dilation[0], top + j * dilation[1], left + k * dilation[2]]
                    out[p, d, h, w] = total * share


@njit(**JIT)
def volume_avg_pool_gradient(
    out: Array,
    g: Array,
    kernel: Triple,
    stride: Triple,
    padding: Triple,
    dilation: Triple,
    after: Triple,
    divisor: int,
) -> None:
    """Compute the transpose of `avg_pool`: `out` (planes, depth, height, width) is filled from `g`."""
    lengths = out.shape[1:]
    out[:] = 0
    for d in range(g.shape[1]):
        front = d * stride[0] - padding[0]
        d0, d1 = _inside(front, kernel[0], dilation[0], 0, lengths[0])
        for h in range(g.shape[2]):
            top = h * stride[1] - padding[1]
            h0, h1 = _inside(top, kernel[1], dilation[1], 0, lengths[1])
            for w in range(g.shape[3]):
                left = w * stride[2] - padding[2]
                w0, w1 = _inside(left, kernel[2], dilation[2], 0, lengths[2])
                share = _share((front, top, left), lengths, kernel, padding, dilation, after, divisor)
                for p in range(out.shape[0]):
                    value = g[p, d, h, w] * share
                    for i in range(d0, d1):
                        for j in range(h0, h1):
                            for k in range(w0, w1):
                                out[p, front + i * dilation[0], top + j * dilation[1], left + k * dilation[2]] += value
