"""Softmax and what is made of it, row by row while the row is in the cache: cross entropy, attention scores.

Reference:
    Dao et al. 2022, arXiv:2205.14135, sections 3.1 and B.4: attention saves the logarithm of each row's sum.
"""

import math

import numpy as np
from numba import njit

from ..tensor import Array
from .exponential import JIT, exp


@njit(**JIT)
def softmax(x: Array, out: Array, scale: float, causal_length: int) -> None:
    """Compute `out = softmax(scale x)` along rows; with a causal length T, row i attends to its first `i mod T + 1`
    elements.

    The rest of such a row is 0. The key axis may be longer than T: then the surplus stands in front.
    """
    rows, columns = x.shape
    factor = x.dtype.type(scale)
    zero = x.dtype.type(0.0)
    for i in range(rows):
        end = columns if causal_length == 0 else columns - causal_length + i % causal_length + 1
        largest = x.dtype.type(-np.inf)
        is_nan = False
        for j in range(end):
            value = x[i, j] * factor
            is_nan |= value != value
            largest = max(largest, value)
        total = zero
        for j in range(end):
            e = exp(x[i, j] * factor - largest)
            out[i, j] = e
            total += e
        inverse = x.dtype.type(np.nan) if is_nan else x.dtype.type(1.0) / total
        for j in range(end):
            out[i, j] *= inverse
        for j in range(end, columns):
            out[i, j] = zero


@njit(**JIT)
def softmax_gradient(g: Array, y: Array, out: Array, scale: float, causal_length: int) -> None:
    """Compute `out = scale y (g - sum(g y))` along rows, which end as in `softmax`."""
    rows, columns = y.shape
    factor = y.dtype.type(scale)
    zero = y.dtype.type(0.0)
    for i in range(rows):
        end = columns if causal_length == 0 else columns - causal_length + i % causal_length + 1
        total = zero
        for j in range(end):
            total += g[i, j] * y[i, j]
        for j in range(end):
            out[i, j] = factor * y[i, j] * (g[i, j] - total)
        for j in range(end, columns):
            out[i, j] = zero


@njit(**JIT)
def log_softmax(x: Array, out: Array) -> None:
    """Compute `out = x - log(sum(e**x))` along rows."""
    rows, columns = x.shape
    for i in range(rows):
        largest = x.dtype.type(-np.inf)
        for j in range(columns):
            largest = max(largest, x[i, j])
        total = x.dtype.type(0.0)
        for j in range(columns):
            total += exp(x[i, j] - largest)
        # A NaN that the maximum has passed over is in the total.
        shift = largest + x.dtype.type(math.log(total))
        for j in range(columns):
            out[i, j] = x[i, j] - shift


@njit(**JIT)
def cross_entropy(x: Array, labels: Array, out: Array, ignore: int, smoothing: float) -> int:
    """Compute `out[i] = log(sum(e**x[i])) - x[i, label]`, 0 where ignored; returns the first row of a wrong label, or
    -1."""
    rows, columns = x.shape
    for i in range(rows):
        label = labels[i]
        if label == ignore:
            out[i] = 0.0
            continue
        if label < 0 or label >= columns:
            return i
        largest = x.dtype.type(-np.inf)
        for j in range(columns):
            largest = max(largest, x[i, j])
        total = x.dtype.type(0.0)
        mean = x.dtype.type(0.0)
        for j in range(columns):
            total += exp(x[i, j] - largest)
            mean += x[i, j]
        target = x[i, label]
        if smoothing != 0.0:
            target = (1.0 - smoothing) * target + smoothing * mean / columns
        out[i] = largest + math.log(total) - target
    return -1


@njit(**JIT)
def cross_entropy_gradient(g: Array, x: Array, labels: Array, out: Array, ignore: int, smoothing: float) -> None:
    """Compute `out[i] = g[i] (softmax(x[i]) - target[i])`, 0 for ignored rows."""
    rows, columns = x.shape
    off = x.dtype.type(smoothing / columns)
    on = x.dtype.type(1.0 - smoothing)
    for i in range(rows):
        label = labels[i]
        if label == ignore:
            out[i, :] = 0.0
            continue
        largest = x.dtype.type(-np.inf)
        for j in range(columns):
            largest = max(largest, x[i, j])
        total = x.dtype.type(0.0)
        for j in range(columns):
            e = exp(x[i, j] - largest)
            out[i, j] = e
            total += e
        weight = g[i]
        inverse = x.dtype.type(1.0) / total
        for j in range(columns):
            out[i, j] = weight * (out[i, j] * inverse - off)
        out[i, label] -= weight * on


@njit(**JIT)
def attention_softmax(scores: Array, sums: Array, scale: float, visible: int) -> None:
    """Compute `scores = softmax(scale scores)` along rows, in place; `sums` gets the logarithms of the rows' sums.

    Row `i` sees its first `visible + i` elements, all of them if `visible` is negative. A row that sees nothing, or
    only minus infinity, is 0.
    """
    rows, columns = scores.shape
    factor = scores.dtype.type(scale)
    zero = scores.dtype.type(0.0)
    nothing = scores.dtype.type(-np.inf)
    for i in range(rows):
        end = columns if visible < 0 else min(columns, visible + i)
        largest = nothing
        for j in range(end):
            largest = max(largest, scores[i, j])
        shift = factor * largest if largest > nothing else zero
        total = zero
        for j in range(end):
            e = exp(scores[i, j] * factor - shift)
            scores[i, j] = e
            total += e
        inverse = zero if total == zero else scores.dtype.type(1.0) / total
        for j in range(end):
            scores[i, j] *= inverse
        for j in range(end, columns):
            scores[i, j] = zero
        sums[i] = shift + scores.dtype.type(math.log(total)) if total != zero else nothing


@njit(**JIT)
def attention_softmax_gradient(
    scores: Array, of_weights: Array, sums: Array, delta: Array, scale: float, visible: int
) -> None:
    """Turn `scores` into the weights again, and `of_weights` into the gradient of the scores, both in place.

    `delta` is, of each row, the sum of the output times its gradient. Rows end as in `softmax`.
    """
    rows, columns = scores.shape
    factor = scores.dtype.type(scale)
    zero = scores.dtype.type(0.0)
    for i in range(rows):
        end = columns if visible < 0 else min(columns, visible + i)
        shift = sums[i] if sums[i] > scores.dtype.type(-np.inf) else scores.dtype.type(np.inf)
        for j in range(end):
            scores[i, j] = exp(scores[i, j] * factor - shift)
        for j in range(end):
            of_weights[i, j] = scores[i, j] * (of_weights[i, j] - delta[i]) * factor
        for j in range(end, columns):
            scores[i, j] = zero
            of_weights[i, j] = zero


@njit(**JIT)
def hide(scores: Array, mask: Array) -> None:
    """Set `scores` to minus infinity where the mask does not hold."""
    rows, columns = scores.shape
    for i in range(rows):
        for j in range(columns):
            if not mask[i, j]:
                scores[i, j] = -np.inf
