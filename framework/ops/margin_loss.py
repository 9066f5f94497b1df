"""Losses of distances and margins: what belongs together lies close, what does not lies apart."""

from ..tensor import Tensor
from .activation import relu
from .arithmetic import divide, maximum, minimum, multiply, negative, subtract
from .choose import where
from .create import arange
from .elements import gather_elements
from .loss_reduction import Reduction, reduced
from .math import power
from .operands import as_tensor, cast_to
from .rectifier import softplus
from .statistics import l2_norm, vector_norm


def cosine_similarity(a: Tensor, b: Tensor, axis: int = 1, epsilon: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `axis`; lengths below `epsilon` count as that."""
    along = multiply(a, b).sum(axis)
    return divide(along, multiply(maximum(l2_norm(a, axis), epsilon), maximum(l2_norm(b, axis), epsilon)))


def pairwise_distance(
    a: Tensor, b: Tensor, order: float = 2.0, epsilon: float = 1e-6, keepdims: bool = False
) -> Tensor:
    """The norm of the differences along the last axis, `epsilon` added to each."""
    return vector_norm(subtract(a, b) + epsilon, order, -1, keepdims)


def cosine_embedding_loss(
    a: Tensor, b: Tensor, target: Tensor, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """`1 - cos` for pairs that belong together (1), `max(0, cos - margin)` for those that do not (-1)."""
    cosine = cosine_similarity(a, b, -1)
    return reduced(where(as_tensor(target) > 0, 1.0 - cosine, relu(cosine - margin)), reduction)


def hinge_loss(prediction: Tensor, target: Tensor, *, margin: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """`max(0, margin - target prediction)` for targets of -1 and 1."""
    return reduced(relu(margin - prediction * target), reduction)


def hinge_embedding_loss(
    distance: Tensor, target: Tensor, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """The distance for pairs that belong together (1), `max(0, margin - distance)` for those that do not (-1)."""
    return reduced(where(as_tensor(target) > 0, distance, relu(margin - distance)), reduction)


def soft_margin_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """`log(1 + e**(-target prediction))` for targets of -1 and 1, without overflow."""
    return reduced(softplus(negative(prediction * target)), reduction)


def margin_ranking_loss(
    first: Tensor, second: Tensor, target: Tensor, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """`max(0, margin - target (first - second))`: the first should rank higher (1) or lower (-1)."""
    return reduced(relu(margin - subtract(first, second) * target), reduction)


def multi_margin_loss(
    prediction: Tensor, labels: Tensor, *, order: int = 1, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """The mean over the other classes of `max(0, margin - right + other) ** order`, for `(rows, classes)`."""
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
    """`max(0, margin + |anchor - positive| - |anchor - negative|)` along the last axis.

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
