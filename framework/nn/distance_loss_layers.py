"""Losses of numbers, distances, similarities and margins as cells."""

from ..ops import (
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    l1_loss,
    margin_ranking_loss,
    multi_margin_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from ..tensor import Tensor
from .cell import Cell
from .loss_layers import Reduction, check_reduction


class L1Loss(Cell):
    """The absolute difference."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return l1_loss(prediction, target, reduction=self.reduction)


class SmoothL1Loss(Cell):
    """`d**2 / (2 beta)` for differences smaller than `beta`, `|d| - beta / 2` for larger ones.

    Reference:
        Girshick 2015, arXiv:1504.08083, eq. 3, with `beta` 1 there.
    """

    def __init__(self, beta: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        if not beta >= 0.0:
            raise ValueError(f"SmoothL1Loss expects beta of 0 or more, got {beta}")
        self.beta = float(beta)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return smooth_l1_loss(prediction, target, beta=self.beta, reduction=self.reduction)


class HuberLoss(Cell):
    """`d**2 / 2` for differences up to `delta`, `delta (|d| - delta / 2)` for larger ones.

    Reference:
        Huber 1964, "Robust estimation of a location parameter".
    """

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        super().__init__()
        check_reduction(self, reduction)
        if not delta > 0.0:
            raise ValueError(f"HuberLoss expects delta above 0, got {delta}")
        self.delta = float(delta)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return huber_loss(prediction, target, delta=self.delta, reduction=self.reduction)


class PoissonNLLLoss(Cell):
    """Minus the log-probability of counts under Poisson distributions.

    Args:
        log_input: Whether predictions are logarithms of rates.
        full: Whether Stirling's approximation of the constant term is added.
        eps: Added to rates before their logarithm.
        reduction: Over all elements.
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.log_input, self.full, self.eps = log_input, full, float(eps)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return poisson_nll_loss(
            prediction,
            target,
            is_log=self.log_input,
            is_full=self.full,
            epsilon=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(Cell):
    """Minus the log-probability of targets under normal distributions of given means and variances.

    Args:
        full: Whether the constant term is added.
        eps: The least variance.
        reduction: Over all elements.
    """

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.full, self.eps = full, float(eps)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor, variance: Tensor) -> Tensor:
        """Return the loss."""
        return gaussian_nll_loss(
            prediction, target, variance, is_full=self.full, epsilon=self.eps, reduction=self.reduction
        )


class CosineEmbeddingLoss(Cell):
    """`1 - cos(a, b)` where the target is 1, `max(0, cos(a, b) - margin)` where it is -1."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.margin = float(margin)
        self.reduction: Reduction = reduction

    def construct(self, a: Tensor, b: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `(*batch, features)` twice and targets `(*batch)`."""
        return cosine_embedding_loss(a, b, target, margin=self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(Cell):
    """The distance where the target is 1, `max(0, margin - distance)` where it is -1."""

    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.margin = float(margin)
        self.reduction: Reduction = reduction

    def construct(self, distance: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return hinge_embedding_loss(distance, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(Cell):
    """`max(0, margin - target (first - second))`, the target being 1 where the first should be the larger, else -1."""

    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.margin = float(margin)
        self.reduction: Reduction = reduction

    def construct(self, first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
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
        """Return the loss of scores `(rows, classes)` and labels `(rows)`."""
        return multi_margin_loss(prediction, labels, order=self.p, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(Cell):
    """`log(1 + exp(-target x))` of targets 1 and -1."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
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
        """Return the loss of three `(*batch, features)`."""
        return triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, order=self.p, swap=self.swap, reduction=self.reduction
        )
