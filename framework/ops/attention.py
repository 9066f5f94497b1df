"""Attention: values weighted by how well their keys match a query, block by block, without storing the weights.

Reference:
    Vaswani et al. 2017, arXiv:1706.03762, eq. 1; Dao et al. 2022, arXiv:2205.14135.
"""

import math
from typing import Any

import numpy as np

from ..dtype import bool_
from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec, broadcast_shapes
from ..tensor import Tensor, method
from .activation import attention_weights, softmax
from .arithmetic import add, multiply
from .attention_blocks import evaluate, evaluate_gradient, infer
from .choose import where
from .fused import derived_from
from .indexing import getitem
from .linalg import matmul
from .operands import as_real, as_tensor, cast_to, pair
from .reduce import broadcast_to
from .statistics import logsumexp


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
    """Output and logarithms of basic primitives."""
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
    """Output and logarithms are functions of the others here: that is how the second derivative finds them."""
    weights = softmax(_scores(query, key, mask, causal, scale))
    of_weights = matmul(g, value.swapaxes(-1, -2))
    delta = (of_weights * weights).sum(-1, keepdims=True)
    slopes = multiply(weights * (of_weights - delta), scale)
    turned = slopes.swapaxes(-1, -2)
    return matmul(slopes, key), matmul(turned, query), matmul(weights.swapaxes(-1, -2), g)


_derived = derived_from(_compose)


def _rule(needs: Any, g: Any, out: Any, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor, **how: Any) -> Any:
    if g[1] is not None:  # someone used the logarithms: rare, so there is no kernel for it
        return _derived(needs, g, out, query, key, value, *mask, **how)
    found = _attention_gradient.several(g[0], query, key, value, *out, *mask, **how)
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
    """`softmax(scale query key^T) value`, as `(..., queries, features of the values)`.

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
    """The axes in front of keys or values, as they will be when shared heads are repeated."""
    lead, wanted = x.shape[:-2], query.shape[:-2]
    if lead and wanted and lead[-1] not in (1, wanted[-1]) and wanted[-1] % lead[-1] == 0:
        return (*lead[:-1], wanted[-1])
    return lead


def _spread(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """The tensor with these axes in front; each head repeated for its group where there are fewer."""
    have = x.shape[:-2]
    if have == lead:
        return x
    if have and have[-1] not in (1, lead[-1]):
        group = lead[-1] // have[-1]
        wide = getitem(x, (Ellipsis, None, slice(None), slice(None)))
        x = broadcast_to(wide, (*have, group, *x.shape[-2:])).reshape(*have[:-1], lead[-1], *x.shape[-2:])
    return broadcast_to(x, (*lead, *x.shape[-2:]))
