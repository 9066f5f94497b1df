"""Losses of classes."""

from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor, wrap
from ..call import Call
from ..registry import operator


def _reduced(call: Call, log_p: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """Minus the logarithms at the targets, weighted, and summed up as asked for."""
    ignored = call.get("ignore_index")
    classes = log_p.shape[1]
    labels = ops.cast(target, "int64")
    counted = ops.not_equal(labels, ignored) if ignored is not None else wrap(np.ones(target.shape, np.bool_))
    safe = ops.where(counted, labels, ops.zeros_like(labels))
    safe = ops.where(ops.less(safe, 0), safe + classes, safe)
    last = log_p.transpose(0, *range(2, log_p.ndim), 1).reshape(-1, classes)
    rows = wrap(np.arange(last.shape[0]))
    flat = safe.reshape(-1)
    each = wrap(np.ones(flat.shape, log_p.dtype)) if weight is None else weight[flat]
    each = ops.where(counted.reshape(-1), each, 0.0)
    loss = -(last[rows, flat] * each)
    how = call.get("reduction", "mean")
    if how == "none":
        return loss.reshape(target.shape)
    return loss.sum() if how == "sum" else loss.sum() / each.sum()


@operator("NegativeLogLikelihoodLoss")
def nll(call: Call, log_p: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Minus the logarithm of the probability of the right class."""
    return _reduced(call, log_p, target, weight)


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(call: Call, scores: Tensor, target: Tensor, weight: Tensor | None = None) -> tuple[Any, ...]:
    """The loss of scores, and the logarithms of the probabilities."""
    log_p = ops.log_softmax(scores, 1)
    return _reduced(call, log_p, target, weight), log_p
