"""Attention: values weighted by how well their keys match a query."""

import math

from ..errors import ShapeError
from ..tensor import Tensor
from .activation import attention_weights
from .array import where
from .linalg import matmul


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
        key: `(..., keys, features)`.
        value: `(..., keys, features of the values)`.
        mask: Bool, broadcastable to `(..., queries, keys)`; True may be looked at.
        causal: Hide the keys after each query; with more keys than queries the queries are the last ones.
        scale: `1 / sqrt(features)` by default.

    Reference:
        Vaswani et al. 2017, arXiv:1706.03762, eq. 1.
    """
    if causal and query.shape[-2] > key.shape[-2]:
        raise ShapeError(
            f"causal attention expects at least as many keys as queries, got {key.shape} and {query.shape}"
        )
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query, key.swapaxes(-1, -2))
    if mask is not None:
        scores = where(mask, scores, -math.inf)
    return matmul(attention_weights(scores, factor, causal), value)
