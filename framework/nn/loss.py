"""Losses as cells: called with what the network says and what was right."""

from typing import Literal

from ..ops import bce_with_logits, cross_entropy, mse, nll
from ..tensor import Tensor
from .cell import Cell

Reduction = Literal["mean", "sum", "none"]


class CrossEntropyLoss(Cell):
    """Minus the log-probability of the labels under the softmax of the logits.

    Args:
        ignore_index: A label that counts nothing.
        label_smoothing: Share of the target spread evenly over all classes, in [0, 1].
        reduction: Over the rows.

    Shape:
        logits `(*batch, classes)`, integer labels `(*batch)`.
    """

    def __init__(self, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        _check_reduction(self, reduction)
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"CrossEntropyLoss expects label_smoothing in [0, 1], got {label_smoothing}")
        self.ignore_index, self.label_smoothing, self.reduction = ignore_index, float(label_smoothing), reduction

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss."""
        return cross_entropy(
            logits,
            labels,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )


class MSELoss(Cell):
    """The squared difference; prediction and target of one shape."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        _check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return mse(prediction, target, reduction=self.reduction)


class BCEWithLogitsLoss(Cell):
    """Binary cross entropy of `sigmoid(logits)` and a target in [0, 1], without overflow."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        _check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return bce_with_logits(logits, target, reduction=self.reduction)


class NLLLoss(Cell):
    """Minus the log-probabilities `(rows, classes)` at the labels `(rows)`."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        _check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, log_probabilities: Tensor, labels: Tensor) -> Tensor:
        """The loss."""
        return nll(log_probabilities, labels, reduction=self.reduction)


def _check_reduction(cell: Cell, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{type(cell).__name__} expects reduction to be one of mean, sum, none, got {reduction!r}")
