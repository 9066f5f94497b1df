"""Losses of distances, similarities and margins as cells."""

from ..ops import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from ..tensor import Tensor
from .cell import Cell
from .reduction import Reduction, check_reduction


class CosineEmbeddingLoss(Cell):
    """`1 - cos(a, b)` where the target is 1, `max(0, cos(a, b) - margin)` where it is -1."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.margin = float(margin)
        self.reduction: Reduction = reduction

    def construct(self, a: Tensor, b: Tensor, target: Tensor) -> Tensor:
        """The loss of `(*batch, features)` twice and targets `(*batch)`."""
        return cosine_embedding_loss(a, b, target, margin=self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(Cell):
    """The distance where the target is 1, `max(0, margin - distance)` where it is -1."""

    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.margin = float(margin)
        self.reduction: Reduction = reduction

    def construct(self, distance: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return hinge_embedding_loss(distance, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(Cell):
    """`max(0, margin - target (first - second))`, the target being 1 where the first should be the larger, else -1."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.margin = float(margin)
        self.reduction: Reduction = reduction

    def construct(self, first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return margin_ranking_loss(first, second, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(Cell):
    """The mean over the other classes of `max(0, margin - x[label] + x[class]) ** p`."""

    def __init__(self, p: int = 1, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss expects p of 1 or 2, got {p}")
        self.p, self.margin = p, float(margin)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, labels: Tensor) -> Tensor:
        """The loss of scores `(rows, classes)` and labels `(rows)`."""
        return multi_margin_loss(prediction, labels, order=self.p, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(Cell):
    """`log(1 + exp(-target x))` of targets 1 and -1."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return soft_margin_loss(prediction, target, reduction=self.reduction)


class TripletMarginLoss(Cell):
    """`max(0, |anchor - positive| - |anchor - negative| + margin)`.

    Args:
        p: Order of the norm.
        swap: Whether the distance of negative and positive counts where it is smaller.
        margin: How much farther the negative should be.
        reduction: Over the rows.
    """

    def __init__(self, p: float = 2.0, swap: bool = False, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.p, self.swap, self.margin = float(p), swap, float(margin)
        self.reduction: Reduction = reduction

    def construct(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss of three `(*batch, features)`."""
        return triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, order=self.p, swap=self.swap, reduction=self.reduction
        )
