"""Losses of numbers as cells: prediction and target of one shape."""

from ..ops import gaussian_nll_loss, huber_loss, l1_loss, poisson_nll_loss, smooth_l1_loss
from ..tensor import Tensor
from .cell import Cell
from .reduction import Reduction, check_reduction


class L1Loss(Cell):
    """The absolute difference."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss."""
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
        """The loss."""
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
        """The loss."""
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
        """The loss."""
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
        """The loss."""
        return gaussian_nll_loss(
            prediction, target, variance, is_full=self.full, epsilon=self.eps, reduction=self.reduction
        )
