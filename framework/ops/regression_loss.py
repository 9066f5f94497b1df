"""Losses of numbers: how far a prediction lies from a target."""

import math

from ..errors import ShapeError
from ..tensor import Tensor, TensorLike
from .arithmetic import abs, maximum, multiply, square, subtract
from .choose import where
from .loss_reduction import Reduction, reduced
from .math import exp, log
from .operands import as_tensor


def _difference(name: str, prediction: Tensor, target: Tensor) -> Tensor:
    if prediction.shape != as_tensor(target).shape:
        raise ShapeError(f"{name} expects equal shapes, got {prediction.shape} and {as_tensor(target).shape}")
    return subtract(prediction, target)


def l1_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """The absolute difference."""
    return reduced(abs(_difference("l1_loss", prediction, target)), reduction)


def smooth_l1_loss(prediction: Tensor, target: Tensor, *, beta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """`d**2 / (2 beta)` for a difference below `beta`, `|d| - beta / 2` above.

    Reference:
        Girshick 2015, arXiv:1504.08083, eq. 3.
    """
    if beta == 0.0:
        return l1_loss(prediction, target, reduction=reduction)
    difference = _difference("smooth_l1_loss", prediction, target)
    size = abs(difference)
    losses = where(size < beta, multiply(square(difference), 0.5 / beta), size - 0.5 * beta)
    return reduced(losses, reduction)


def huber_loss(prediction: Tensor, target: Tensor, *, delta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """`d**2 / 2` for a difference below `delta`, `delta (|d| - delta / 2)` above.

    Reference:
        Huber 1964, "Robust estimation of a location parameter".
    """
    difference = _difference("huber_loss", prediction, target)
    size = abs(difference)
    losses = where(size <= delta, multiply(square(difference), 0.5), multiply(size - 0.5 * delta, delta))
    return reduced(losses, reduction)


def poisson_nll_loss(
    prediction: Tensor,
    target: Tensor,
    *,
    is_log: bool = True,
    is_full: bool = False,
    epsilon: float = 1e-8,
    reduction: Reduction = "mean",
) -> Tensor:
    """The negative log-probability of counts under Poisson distributions.

    Args:
        prediction: The rates, or their logarithms.
        target: The counts.
        is_log: Whether the prediction is a logarithm.
        is_full: Add Stirling's approximation of `log target!` for counts above 1.
        epsilon: Added to a rate before its logarithm.
        reduction: Over all elements.
    """
    losses = exp(prediction) - target * prediction if is_log else prediction - target * log(prediction + epsilon)
    if is_full:
        many = target > 1.0
        safe = where(many, target, 2.0)
        losses = losses + where(many, safe * log(safe) - safe + 0.5 * log(safe * (2.0 * math.pi)), 0.0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    prediction: Tensor,
    target: Tensor,
    variance: TensorLike,
    *,
    is_full: bool = False,
    epsilon: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor:
    """The negative log-probability of numbers under normal distributions, without the constant unless `is_full`.

    Args:
        prediction: Means.
        target: Of the same shape.
        variance: Broadcast; no gradient flows below `epsilon`, which replaces it there.
        is_full: Add `log(2 pi) / 2`.
        epsilon: Smallest variance.
        reduction: Over all elements.
    """
    spread = maximum(as_tensor(variance), epsilon)
    losses = multiply(log(spread) + square(subtract(prediction, target)) / spread, 0.5)
    return reduced(losses + 0.5 * math.log(2.0 * math.pi) if is_full else losses, reduction)
