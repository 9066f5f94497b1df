"""Attention on arrays, by blocks of queries: the matrix of scores never stands in memory as a whole.

Evaluation walks over the heads. The scores of a block of queries stay in the cache from the product that makes them to
the product that uses them; with `causal` the keys after the block are never looked at. Saved is one number a query, the
logarithm of the sum of its exponentials, from which the gradient makes the weights again.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .. import kernels
from ..dtype import float32, float64
from ..errors import ShapeError
from ..shape import Spec
from ..tensor import Array

#: A function and what it is to be called with.
Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


# Queries of one block, measured at 128 keys (4 heads of 64): 32 costs 1.15 of this, 128 costs 1.03. Its scores and
# their gradients take 32 KiB each in float32.
_BLOCK = 64


def infer(query: Spec, key: Spec, value: Spec, *mask: Spec, causal: bool, scale: float) -> tuple[Spec, Spec]:
    """Shapes of the output and of the logarithms of the sums of exponentials."""
    lead, queries = query.shape[:-2], query.shape[-2]
    fits = len(query.shape) >= 2 and key.shape[:-2] == lead and value.shape[:-1] == key.shape[:-1]
    if not fits or query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"attention expects queries (..., n, features), keys (..., m, features) and values (..., m, width), "
            f"got {query.shape}, {key.shape} and {value.shape}"
        )
    if causal and queries > key.shape[-2]:
        raise ShapeError(
            f"causal attention expects at least as many keys as queries, got {key.shape} and {query.shape}"
        )
    return Spec((*query.shape[:-1], value.shape[-1]), query.dtype), Spec(query.shape[:-1], query.dtype)


def _wide(x: Array) -> Array:
    """In a type that BLAS multiplies, the last axis dense: rows may lie apart, as those of a head do."""
    x = x if x.dtype in (float32, float64) else x.astype(float32)
    return x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


def _laid_out_like(x: Array, width: int) -> Array:
    """An empty array `(*shape of x without its last axis, width)`, its axes in memory in the order of those of `x`."""
    return np.empty_like(x, shape=(*x.shape[:-1], width), subok=False)


def _blocks(queries: int, keys: int, causal: bool) -> Iterator[tuple[slice, int, int]]:
    """Queries of each block, the number of keys it looks at, and how many of them its first query sees (-1: all)."""
    for start in range(0, queries, _BLOCK):
        end = min(start + _BLOCK, queries)
        ahead = keys - queries
        yield slice(start, end), end + ahead if causal else keys, start + ahead + 1 if causal else -1


def evaluate(query: Array, key: Array, value: Array, *mask: Array, causal: bool, scale: float) -> tuple[Array, Array]:
    """The output, and for each query the logarithm of the sum of its exponentials."""
    infer(*(Spec(x.shape, x.dtype) for x in (query, key, value)), causal=causal, scale=scale)
    q, k, v = _wide(query), _wide(key), _wide(value)
    out, sums = _laid_out_like(q, v.shape[-1]), np.empty(q.shape[:-1], q.dtype)
    for call, arguments in attend(q, k, v, *mask, out=out, sums=sums, causal=causal, scale=scale):
        call(*arguments)
    return out.astype(query.dtype, copy=False), sums.astype(query.dtype, copy=False)


def attend(
    q: Array, k: Array, v: Array, *mask: Array, out: Array, sums: Array, causal: bool, scale: float
) -> Iterator[Call]:
    """The calls that fill `out` and `sums` with what the primitive returns, as functions and their arguments.

    Arrays of one floating type, their last axes dense. The calls can be kept and made again for new values.
    """
    hidden = np.broadcast_to(mask[0], (*q.shape[:-1], k.shape[-2])) if mask else None
    buffer = np.empty((min(_BLOCK, q.shape[-2]), k.shape[-2]), q.dtype)
    blocks = list(_blocks(q.shape[-2], k.shape[-2], causal))
    weigh = kernels.attention.softmax
    for head in np.ndindex(q.shape[:-2]):
        queries, keys, values, results, logs = q[head], k[head].T, v[head], out[head], sums[head]
        for rows, seen, visible in blocks:
            scores = buffer[: rows.stop - rows.start, :seen]
            yield np.matmul, (queries[rows], keys[:, :seen], scores)
            if hidden is not None:
                yield kernels.attention.hide, (scores, hidden[head][rows, :seen])
            yield weigh, (scores, logs[rows], scale, visible)
            yield np.matmul, (scores, values[:seen], results[rows])


def evaluate_gradient(
    g: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    logarithms: Array,
    *mask: Array,
    causal: bool,
    scale: float,
) -> tuple[Array, ...]:
    """The gradients of query, key, value and mask, from blocks as they came."""
    of_out, q, k, v, out, sums = (_wide(x) for x in (g, query, key, value, output, logarithms))
    found = tuple(_laid_out_like(x, x.shape[-1]) for x in (q, k, v))
    for call, arguments in attend_back(of_out, q, k, v, out, sums, *mask, found=found, causal=causal, scale=scale):
        call(*arguments)
    return tuple(x.astype(query.dtype, copy=False) for x in found)


def attend_back(
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    sums: Array,
    *mask: Array,
    found: tuple[Array, ...],
    causal: bool,
    scale: float,
) -> Iterator[Call]:
    """The calls that fill the arrays of `found` with the gradients of queries, keys and values; see `attend`."""
    delta = np.empty(q.shape[:-1], q.dtype)
    yield partial(np.einsum, out=delta), ("...i,...i->...", g, out)
    hidden = np.broadcast_to(mask[0], (*q.shape[:-1], k.shape[-2])) if mask else None
    first, second = np.empty((2, min(_BLOCK, q.shape[-2]), k.shape[-2]), q.dtype)
    more = tuple(np.empty((k.shape[-2], x.shape[-1]), q.dtype) for x in (k, v))
    blocks = list(reversed(list(_blocks(q.shape[-2], k.shape[-2], causal))))
    slope = kernels.attention.softmax_gradient
    for head in np.ndindex(q.shape[:-2]):
        queries, keys, values, gradients = q[head], k[head], v[head], g[head]
        of_queries, *of_rest = (x[head] for x in found)
        reached = 0  # keys that have a gradient already: later blocks add to it
        for rows, seen, visible in blocks:
            scores, slopes = first[: rows.stop - rows.start, :seen], second[: rows.stop - rows.start, :seen]
            yield np.matmul, (queries[rows], keys[:seen].T, scores)
            if hidden is not None:
                yield kernels.attention.hide, (scores, hidden[head][rows, :seen])
            yield np.matmul, (gradients[rows], values[:seen].T, slopes)
            yield slope, (scores, slopes, sums[head][rows], delta[head][rows], scale, visible)
            yield np.matmul, (slopes, keys[:seen], of_queries[rows])
            for parts, total, extra in zip(
                ((slopes.T, queries[rows]), (scores.T, gradients[rows])), of_rest, more, strict=True
            ):
                # The last block comes first: it looks at every key.
                yield np.matmul, (*parts, extra[:seen] if reached else total[:seen])
                if reached:
                    yield np.add, (total[:seen], extra[:seen], total[:seen])
            reached = reached or seen
        if not reached:
            for total in of_rest:
                yield total.fill, (0,)
