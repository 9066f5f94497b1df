"""Losses of numbers, distances and margins."""

import math

from ..errors import ShapeError
from ..tensor import Tensor, TensorLike
from .activation_ops import relu
from .arithmetic_ops import abs, divide, maximum, minimum, multiply, negative, square, subtract
from .class_losses import Reduction, reduced
from .create import arange
from .gather_scatter import gather_elements
from .logic_ops import where
from .operands import as_tensor, cast_to
from .rectifier import softplus
from .statistical_ops import l2_norm, vector_norm
from .transcendental import exp, log, power


def _difference(name: str, prediction: Tensor, target: Tensor) -> Tensor:
    if prediction.shape != as_tensor(target).shape:
        raise ShapeError(f"{name} expects equal shapes, got {prediction.shape} and {as_tensor(target).shape}")
    return subtract(prediction, target)


def l1_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Return the absolute difference."""
    return reduced(abs(_difference("l1_loss", prediction, target)), reduction)


def smooth_l1_loss(prediction: Tensor, target: Tensor, *, beta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Return `d**2 / (2 beta)` for a difference below `beta`, `|d| - beta / 2` above.

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
    """Return `d**2 / 2` for a difference below `delta`, `delta (|d| - delta / 2)` above.

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
    """Return the negative log-probability of counts under Poisson distributions.

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
    """Return the negative log-probability of numbers under normal distributions, without the constant unless `is_full`.

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


def cosine_similarity(a: Tensor, b: Tensor, axis: int = 1, epsilon: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along `axis`; lengths below `epsilon` count as that."""
    along = multiply(a, b).sum(axis)
    return divide(along, multiply(maximum(l2_norm(a, axis), epsilon), maximum(l2_norm(b, axis), epsilon)))


def pairwise_distance(
    a: Tensor, b: Tensor, order: float = 2.0, epsilon: float = 1e-6, keepdims: bool = False
) -> Tensor:
    """Return the norm of the differences along the last axis, `epsilon` added to each."""
    return vector_norm(subtract(a, b) + epsilon, order, -1, keepdims)


def cosine_embedding_loss(
    a: Tensor, b: Tensor, target: Tensor, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return `1 - cos` for pairs that belong together (1), `max(0, cos - margin)` for those that do not (-1)."""
    cosine = cosine_similarity(a, b, -1)
    return reduced(where(as_tensor(target) > 0, 1.0 - cosine, relu(cosine - margin)), reduction)


def hinge_loss(prediction: Tensor, target: Tensor, *, margin: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Return `max(0, margin - target prediction)` for targets of -1 and 1."""
    return reduced(relu(margin - prediction * target), reduction)


def hinge_embedding_loss(
    distance: Tensor, target: Tensor, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return the distance for pairs that belong together (1), `max(0, margin - distance)` for those that do not
    (-1)."""
    return reduced(where(as_tensor(target) > 0, distance, relu(margin - distance)), reduction)


def soft_margin_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """`log(1 + e**(-target prediction))` for targets of -1 and 1, without overflow."""
    return reduced(softplus(negative(prediction * target)), reduction)


def margin_ranking_loss(
    first: Tensor, second: Tensor, target: Tensor, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return `max(0, margin - target (first - second))`: the first should rank higher (1) or lower (-1)."""
    return reduced(relu(margin - subtract(first, second) * target), reduction)


def multi_margin_loss(
    prediction: Tensor, labels: Tensor, *, order: int = 1, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return the mean over the other classes of `max(0, margin - right + other) ** order`, for `(rows, classes)`."""
    labels = as_tensor(labels).reshape(-1, 1)
    right = gather_elements(prediction, labels, 1)
    losses = power(relu(margin - right + prediction), order)
    others = cast_to(labels != _numbers(prediction), prediction.dtype)
    return reduced((losses * others).sum(-1) / prediction.shape[-1], reduction)


def _numbers(x: Tensor) -> Tensor:
    return arange(x.shape[-1]).reshape(1, -1)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    order: float = 2.0,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return `max(0, margin + |anchor - positive| - |anchor - negative|)` along the last axis.

    Args:
        anchor: `(*batch, features)`.
        positive: What belongs to it.
        negative: What does not.
        margin: How much farther the negative should be.
        order: Of the norm.
        swap: Use the distance of the negative from the positive where that is smaller.
        reduction: Over the batch.

    Reference:
        Balntas et al. 2016, "Learning local feature descriptors with triplets and shallow convolutional networks".
    """
    near, far = pairwise_distance(anchor, positive, order), pairwise_distance(anchor, negative, order)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, order))
    return reduced(relu(near - far + margin), reduction)
