"""Attention, computed by blocks of queries, so that the matrix of scores is never in memory as a whole.

Evaluation walks over the heads. The scores of a block of queries stay in the cache from the product that makes them to
the product that uses them; with `causal` the keys after the block are never looked at. Saved is one number a query, the
logarithm of the sum of its exponentials, from which the gradient makes the weights again.

Reference:
    Vaswani et al. 2017, arXiv:1706.03762, eq. 1; Dao et al. 2022, arXiv:2205.14135.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .. import kernels
from ..dtype import bool_, float32, float64
from ..errors import ShapeError
from ..primitive import Primitive
from ..specs import Spec, broadcast_shapes
from ..tensor import Array, Tensor, method
from .activation_ops import attention_weights, softmax
from .arithmetic_ops import add, multiply
from .fused_derivatives import derived_from
from .indexing_ops import getitem
from .logic_ops import where
from .matrix_products import matmul
from .operands import as_real, as_tensor, cast_to, pair
from .reduce import broadcast_to
from .statistical_ops import logsumexp

#: A function and what it is to be called with.
Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


# Queries of one block, measured at 128 keys (4 heads of 64): 32 costs 1.15 of this, 128 costs 1.03. Its scores and
# their gradients take 32 KiB each in float32.
_BLOCK = 64


def infer(query: Spec, key: Spec, value: Spec, *mask: Spec, causal: bool, scale: float) -> tuple[Spec, Spec]:
    """Return shapes of the output and of the logarithms of the sums of exponentials."""
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
    """Return the array in a type that BLAS multiplies, the last axis dense; rows may lie apart, as those of a head
    do."""
    x = x if x.dtype in (float32, float64) else x.astype(float32)
    return x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


def _laid_out_like(x: Array, width: int) -> Array:
    """Return an empty array `(*shape of x without its last axis, width)`, its axes in memory in the order of those of
    `x`."""
    return np.empty_like(x, shape=(*x.shape[:-1], width), subok=False)


def _blocks(queries: int, keys: int, causal: bool) -> Iterator[tuple[slice, int, int]]:
    """Return queries of each block, the number of keys it looks at, and how many of them its first query sees (-1:
    all)."""
    for start in range(0, queries, _BLOCK):
        end = min(start + _BLOCK, queries)
        ahead = keys - queries
        yield slice(start, end), end + ahead if causal else keys, start + ahead + 1 if causal else -1


def evaluate(query: Array, key: Array, value: Array, *mask: Array, causal: bool, scale: float) -> tuple[Array, Array]:
    """Return the output, and for each query the logarithm of the sum of its exponentials."""
    infer(*(Spec(x.shape, x.dtype) for x in (query, key, value)), causal=causal, scale=scale)
    q, k, v = _wide(query), _wide(key), _wide(value)
    out, sums = _laid_out_like(q, v.shape[-1]), np.empty(q.shape[:-1], q.dtype)
    for call, arguments in attend(q, k, v, *mask, out=out, sums=sums, causal=causal, scale=scale):
        call(*arguments)
    return out.astype(query.dtype, copy=False), sums.astype(query.dtype, copy=False)


def attend(
    q: Array, k: Array, v: Array, *mask: Array, out: Array, sums: Array, causal: bool, scale: float
) -> Iterator[Call]:
    """Return the calls that fill `out` and `sums` with what the primitive returns, as functions and their arguments.

    Arrays of one floating type, their last axes dense. The calls can be kept and made again for new values.
    """
    hidden = np.broadcast_to(mask[0], (*q.shape[:-1], k.shape[-2])) if mask else None
    buffer = np.empty((min(_BLOCK, q.shape[-2]), k.shape[-2]), q.dtype)
    blocks = list(_blocks(q.shape[-2], k.shape[-2], causal))
    weigh = kernels.softmax_kernels.attention_softmax
    for head in np.ndindex(q.shape[:-2]):
        queries, keys, values, results, logs = q[head], k[head].T, v[head], out[head], sums[head]
        for rows, seen, visible in blocks:
            scores = buffer[: rows.stop - rows.start, :seen]
            yield np.matmul, (queries[rows], keys[:, :seen], scores)
            if hidden is not None:
                yield kernels.softmax_kernels.hide, (scores, hidden[head][rows, :seen])
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
    """Return the gradients of query, key, value and mask, from blocks as they came."""
    wide = [_wide(x) for x in (g, query, key, value, output, logarithms)]
    found = tuple(_laid_out_like(x, x.shape[-1]) for x in wide[1:4])
    for call, arguments in attend_back(*wide, *mask, found=found, causal=causal, scale=scale):
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
    """Return the calls that fill the arrays of `found` with the gradients of queries, keys and values; see `attend`."""
    delta = np.empty(q.shape[:-1], q.dtype)
    yield partial(np.einsum, out=delta), ("...i,...i->...", g, out)
    hidden = np.broadcast_to(mask[0], (*q.shape[:-1], k.shape[-2])) if mask else None
    first, second = np.empty((2, min(_BLOCK, q.shape[-2]), k.shape[-2]), q.dtype)
    more = tuple(np.empty((k.shape[-2], x.shape[-1]), q.dtype) for x in (k, v))
    blocks = list(reversed(list(_blocks(q.shape[-2], k.shape[-2], causal))))
    slope = kernels.softmax_kernels.attention_softmax_gradient
    for head in np.ndindex(q.shape[:-2]):
        queries, keys, values, gradients = q[head], k[head], v[head], g[head]
        of_queries, *of_rest = (x[head] for x in found)
        reached = 0  # keys that have a gradient already: later blocks add to it
        for rows, seen, visible in blocks:
            scores, slopes = first[: rows.stop - rows.start, :seen], second[: rows.stop - rows.start, :seen]
            yield np.matmul, (queries[rows], keys[:seen].T, scores)
            if hidden is not None:
                yield kernels.softmax_kernels.hide, (scores, hidden[head][rows, :seen])
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


def _scores(query: Tensor, key: Tensor, mask: tuple[Tensor, ...], causal: bool, scale: float) -> Tensor:
    scores = multiply(matmul(query, key.swapaxes(-1, -2)), scale)
    hidden = [*mask]
    if causal:
        n, m = query.shape[-2], key.shape[-2]
        hidden.append(as_tensor(np.tri(n, m, m - n, dtype=bool)))
    for seen in hidden:
        scores = where(seen, scores, -math.inf)
    return scores


def _compose(
    query: Tensor, key: Tensor, value: Tensor, *mask: Tensor, causal: bool, scale: float
) -> tuple[Tensor, ...]:
    """Return output and logarithms of basic primitives."""
    scores = _scores(query, key, mask, causal, scale)
    return matmul(softmax(scores), value), logsumexp(scores, -1)


def _compose_gradient(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logarithms: Tensor,
    *mask: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    """Express output and logarithms by the others: the second derivative goes through that."""
    weights = softmax(_scores(query, key, mask, causal, scale))
    of_weights = matmul(g, value.swapaxes(-1, -2))
    delta = (of_weights * weights).sum(-1, keepdims=True)
    slopes = multiply(weights * (of_weights - delta), scale)
    turned = slopes.swapaxes(-1, -2)
    return matmul(slopes, key), matmul(turned, query), matmul(weights.swapaxes(-1, -2), g)


_derived = derived_from(_compose)


def _rule(
    needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], *inputs: Tensor, **how: object
) -> Sequence[Tensor | None]:
    if g[1] is not None:  # someone used the logarithms: rare, so there is no kernel for it
        return _derived(needs, g, out, *inputs, **how)
    query_key_value, mask = inputs[:3], inputs[3:]
    found = _attention_gradient.several(g[0], *query_key_value, *out, *mask, **how)
    return (*found, *(None,) * len(mask))


_attention: Primitive = Primitive("attention", evaluate, infer, _rule, saves_output=True)
_attention_gradient: Primitive = Primitive(
    "attention_gradient",
    evaluate_gradient,
    lambda g, query, key, value, *_, **__: (query, key, value),
    derived_from(_compose_gradient),
)


@method
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return `softmax(scale query key^T) value`, as `(..., queries, features of the values)`.

    Args:
        query: `(..., queries, features)`.
        key: `(..., keys, features)`; axes in front may be shorter than those of the queries by a factor, such as heads
            shared by groups of queries.
        value: `(..., keys, features of the values)`.
        mask: Broadcastable to `(..., queries, keys)`: of bools, True may be looked at; of floats, added to the scores.
        causal: Hide the keys after each query; with more keys than queries the queries are the last ones.
        scale: `1 / sqrt(features)` by default.

    Returns:
        A query that may look at nothing gets 0.

    Raises:
        ShapeError: Shapes that do not fit, or `causal` with fewer keys than queries.
    """
    query, key = pair(as_real(query, "attention"), as_real(key, "attention"))
    query, value = pair(query, as_real(value, "attention"))
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        raise ShapeError(f"attention expects two axes or more, got {query.shape}, {key.shape} and {value.shape}")
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    lead = broadcast_shapes(query.shape[:-2], _grouped(key, query), _grouped(value, query))
    query, key, value = (_spread(x, lead) for x in (query, key, value))
    if mask is None:
        return _attention.several(query, key, value, causal=causal, scale=factor)[0]
    mask = as_tensor(mask)
    if mask.dtype == bool_:
        return _attention.several(query, key, value, mask, causal=causal, scale=factor)[0]
    infer(*(Spec(x.shape, x.dtype) for x in (query, key, value)), causal=causal, scale=factor)
    scores = add(multiply(matmul(query, key.swapaxes(-1, -2)), factor), cast_to(mask, query.dtype))
    return matmul(attention_weights(scores, 1.0, causal), value)


def _grouped(x: Tensor, query: Tensor) -> tuple[int, ...]:
    """Return the axes in front of keys or values, as they will be when shared heads are repeated."""
    lead, wanted = x.shape[:-2], query.shape[:-2]
    if lead and wanted and lead[-1] not in (1, wanted[-1]) and wanted[-1] % lead[-1] == 0:
        return (*lead[:-1], wanted[-1])
    return lead


def _spread(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Return the tensor with these axes in front; each head repeated for its group where there are fewer."""
    have = x.shape[:-2]
    if have == lead:
        return x
    if have and have[-1] not in (1, lead[-1]):
        group = lead[-1] // have[-1]
        wide = getitem(x, (Ellipsis, None, slice(None), slice(None)))
        x = broadcast_to(wide, (*have, group, *x.shape[-2:])).reshape(*have[:-1], lead[-1], *x.shape[-2:])
    return broadcast_to(x, (*lead, *x.shape[-2:]))
