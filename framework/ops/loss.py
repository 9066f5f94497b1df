"""Losses of predictions against targets, element by element or between distributions."""

from ..errors import ShapeError
from ..tensor import Tensor
from .activation import log_softmax
from .arithmetic import multiply
from .choose import where
from .compare import not_equal
from .elements import gather_elements
from .loss_reduction import Reduction, last_axis, reduced
from .math import exp, log
from .operands import as_tensor, cast_to
from .rectifier import softplus
from .rounding import clip
from .rows import gather
from .special import xlogy


def nll(
    log_probabilities: Tensor,
    labels: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    axis: int = -1,
) -> Tensor:
    """The negative of the log-probabilities at the labels.

    Args:
        log_probabilities: `(*batch, classes)`.
        labels: `(*batch)`, integers.
        weight: `(classes)`: what an example of a class counts; the mean is then a weighted one.
        ignore_index: A label that counts nothing; the mean is over the others.
        reduction: Over the batch.
        axis: Where the classes lie; 1 for PyTorch's images.
    """
    log_p, labels = last_axis(log_probabilities, axis), as_tensor(labels)
    if log_p.shape[:-1] != labels.shape:
        raise ShapeError(
            f"nll expects log-probabilities (*batch, classes) and labels (*batch), got {log_p.shape} and {labels.shape}"
        )
    is_known = not_equal(labels, ignore_index)
    known = where(is_known, labels, 0)
    counted = cast_to(is_known, log_p.dtype)
    if weight is not None:
        counted = multiply(counted, gather(cast_to(weight, log_p.dtype), known))
    picked = gather_elements(log_p, known.reshape(*labels.shape, 1), -1).reshape(labels.shape)
    # A multiplication would make 0 times minus infinity of an ignored one.
    return reduced(where(is_known, -multiply(counted, picked), 0.0), reduction, counted.sum())


def _check_same(name: str, prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape:
        raise ShapeError(f"{name} expects equal shapes, got {prediction.shape} and {target.shape}")


def mse(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """The squared difference."""
    _check_same("mse", prediction, as_tensor(target))
    difference = prediction - target
    return reduced(multiply(difference, difference), reduction)


def bce_with_logits(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Binary cross entropy of `sigmoid(logits)` and a target in [0, 1], without overflow.

    Args:
        logits: Real.
        target: Of the same shape.
        weight: Factor of each loss; broadcast.
        pos_weight: Factor of the part of the target; broadcast, usually one for each class.
        reduction: Over all elements.
    """
    _check_same("bce_with_logits", logits, as_tensor(target))
    if pos_weight is None:
        losses = softplus(logits) - logits * target
    else:
        losses = softplus(logits) * (1.0 - target) + softplus(-logits) * (target * pos_weight)
    return reduced(losses if weight is None else losses * weight, reduction)


def bce(prediction: Tensor, target: Tensor, *, weight: Tensor | None = None, reduction: Reduction = "mean") -> Tensor:
    """Binary cross entropy of probabilities and a target in [0, 1]; logarithms are cut at -100, as in PyTorch."""
    _check_same("bce", prediction, as_tensor(target))
    first, second = (where(p > 0.0, log(where(p > 0.0, p, 1.0)), -100.0) for p in (prediction, 1.0 - prediction))
    losses = -(target * clip(first, -100.0) + (1.0 - target) * clip(second, -100.0))
    return reduced(losses if weight is None else losses * weight, reduction)


def kl_divergence(logits: Tensor, target_logits: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """`sum(p (log p - log q))` along the last axis, q of `logits`, p of `target_logits`."""
    log_q, log_p = log_softmax(logits), log_softmax(target_logits)
    return reduced((exp(log_p) * (log_p - log_q)).sum(-1), reduction)


def kl_div(
    log_prediction: Tensor, target: Tensor, *, is_log_target: bool = False, reduction: Reduction = "mean"
) -> Tensor:
    """`p (log p - log q)` element by element, q given by its logarithm, p as it is or by its logarithm."""
    given = exp(target) * target if is_log_target else xlogy(target, target)
    losses = given - (exp(target) if is_log_target else target) * log_prediction
    return reduced(losses, reduction)
