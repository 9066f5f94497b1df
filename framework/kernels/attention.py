"""The element-wise parts of attention on one block of scores, while it is in the cache.

Reference:
    Dao et al. 2022, arXiv:2205.14135, sections 3.1 and B.4: what is saved is the logarithm of each row's sum.
"""

import math

import numpy as np
from numba import njit

from ..tensor import Array
from .exponential import JIT, exp


@njit(**JIT)
def softmax(scores: Array, sums: Array, scale: float, visible: int) -> None:
    """`scores = softmax(scale scores)` along rows, in place; `sums` gets the logarithms of the rows' sums.

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
def softmax_gradient(scores: Array, of_weights: Array, sums: Array, delta: Array, scale: float, visible: int) -> None:
    """`scores` become the weights again, and `of_weights` the gradient of the scores, both in place.

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
    """`scores` become minus infinity where the mask does not hold."""
    rows, columns = scores.shape
    for i in range(rows):
        for j in range(columns):
            if not mask[i, j]:
                scores[i, j] = -np.inf
