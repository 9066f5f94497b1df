"""Losses: from what the network says and what was right to a number."""

from typing import Literal

import numpy as np

from .. import kernels
from ..dtype import float32, float64
from ..errors import DtypeError, ShapeError
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor, wrap
from .activation import log_softmax, relu, softmax
from .compare import not_equal
from .indexing import getitem
from .math import abs, exp, log1p, multiply
from .operands import as_floating, as_tensor, cast_to


def _rows(x: Array) -> Array:
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


def _check(logits: Spec, labels: Spec) -> None:
    if len(logits.shape) != 2 or labels.shape != logits.shape[:1]:
        raise ShapeError(
            f"cross entropy expects logits (rows, classes) and labels (rows), got {logits.shape} and {labels.shape}"
        )


def _infer(logits: Spec, labels: Spec, **_: object) -> Spec:
    _check(logits, labels)
    return Spec(labels.shape, logits.dtype)


def _cross_entropy_of(logits: Array, labels: Array, *, ignore: int, smoothing: float) -> Array:
    _check(Spec(logits.shape, logits.dtype), Spec(labels.shape, labels.dtype))
    rows = _rows(logits)
    out = np.empty(len(rows), rows.dtype)
    wrong = kernels.softmax.cross_entropy(rows, np.ascontiguousarray(labels), out, ignore, float(smoothing))
    if wrong >= 0:
        raise ShapeError(
            f"label {labels[wrong]} at row {wrong} names no class; "
            f"expected 0..{logits.shape[1] - 1}, or {ignore} to ignore"
        )
    return out.astype(logits.dtype, copy=False)


def _cross_entropy_gradient_of(g: Array, logits: Array, labels: Array, *, ignore: int, smoothing: float) -> Array:
    rows = _rows(logits)
    out = np.empty_like(rows)
    kernels.softmax.cross_entropy_gradient(_rows(g), rows, np.ascontiguousarray(labels), out, ignore, float(smoothing))
    return out.astype(logits.dtype, copy=False)


def _bend_of_weight(
    gg: Tensor, _: None, g: Tensor, logits: Tensor, labels: Tensor, *, ignore: int, smoothing: float
) -> Tensor:
    one = wrap(np.ones(g.shape, g.dtype))
    unit = _cross_entropy_gradient(one, logits, labels, ignore=ignore, smoothing=smoothing)
    return (gg * unit).sum(-1)


def _bend_of_logits(
    gg: Tensor, _: None, g: Tensor, logits: Tensor, labels: Tensor, *, ignore: int, smoothing: float
) -> Tensor:
    counted = cast_to(not_equal(labels, ignore), logits.dtype)
    y = softmax(logits)
    weighted = gg * (g * counted).reshape(-1, 1)
    return y * (weighted - (weighted * y).sum(-1, keepdims=True))


_cross_entropy: Primitive = Primitive(
    "cross_entropy",
    _cross_entropy_of,
    _infer,
    (lambda g, _, logits, labels, **how: _cross_entropy_gradient(g, logits, labels, **how), None),
)
_cross_entropy_gradient: Primitive = Primitive(
    "cross_entropy_gradient",
    _cross_entropy_gradient_of,
    lambda g, logits, labels, **_: logits,
    (_bend_of_weight, _bend_of_logits, None),
)

_Reduction = Literal["mean", "sum", "none"]


def _reduced(losses: Tensor, reduction: _Reduction) -> Tensor:
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"no reduction {reduction!r}; use 'mean', 'sum' or 'none'")


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: _Reduction = "mean",
) -> Tensor:
    """The negative log-probability of the labels under `softmax(logits)`.

    Args:
        logits: `(*batch, classes)`, unnormalized.
        labels: `(*batch)`, integers.
        ignore_index: A label that counts nothing; the mean is over the others (NaN if there are none).
        label_smoothing: Share of the target spread evenly over all classes.
        reduction: Over the batch.
    """
    logits, labels = as_floating(logits), as_tensor(labels)
    if labels.dtype.kind not in "iu":
        raise DtypeError(f"cross entropy expects integer labels, got {labels.dtype}")
    batch = labels.shape
    if logits.ndim != 2:
        if logits.shape[:-1] != batch:
            raise ShapeError(
                f"cross entropy expects logits (*batch, classes) and labels (*batch), got {logits.shape} and {batch}"
            )
        logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    losses: Tensor = _cross_entropy(logits, labels, ignore=ignore_index, smoothing=label_smoothing)
    if reduction == "mean":
        counted = cast_to(not_equal(labels, ignore_index), float32).sum()
        return losses.sum() / cast_to(counted, losses.dtype)
    return _reduced(losses, reduction).reshape(batch) if reduction == "none" else _reduced(losses, reduction)


def nll(log_probabilities: Tensor, labels: Tensor, *, reduction: _Reduction = "mean") -> Tensor:
    """The negative of the log-probabilities `(rows, classes)` at the labels `(rows)`."""
    rows = np.arange(log_probabilities.shape[0])
    return _reduced(-getitem(log_probabilities, (rows, as_tensor(labels))), reduction)


def mse(prediction: Tensor, target: Tensor, *, reduction: _Reduction = "mean") -> Tensor:
    """The squared difference."""
    if prediction.shape != as_tensor(target).shape:
        raise ShapeError(f"mse expects equal shapes, got {prediction.shape} and {as_tensor(target).shape}")
    difference = prediction - target
    return _reduced(multiply(difference, difference), reduction)


def bce_with_logits(logits: Tensor, target: Tensor, *, reduction: _Reduction = "mean") -> Tensor:
    """Binary cross entropy of `sigmoid(logits)` and a target in [0, 1], without overflow."""
    losses = relu(logits) - logits * target + log1p(exp(-abs(logits)))
    return _reduced(losses, reduction)


def kl_divergence(logits: Tensor, target_logits: Tensor, *, reduction: _Reduction = "mean") -> Tensor:
    """`sum(p (log p - log q))` along the last axis, q of `logits`, p of `target_logits`."""
    log_q, log_p = log_softmax(logits), log_softmax(target_logits)
    return _reduced((exp(log_p) * (log_p - log_q)).sum(-1), reduction)
