"""Losses of classes and probabilities as cells, and how every loss cell reduces the losses of a batch."""

from typing import Literal

import numpy as np

from ..ops.class_losses import bce, bce_with_logits, cross_entropy, ctc_loss, kl_div, mse, nll
from ..tensor import Tensor
from .cell import Cell

Reduction = Literal["mean", "sum", "none"]


def check_reduction(cell: Cell, reduction: str) -> None:
    """Check that the word is one of mean, sum, none.

    Raises:
        ValueError: It is not; the message names the cell's class.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{type(cell).__name__} expects reduction to be one of mean, sum, none, got {reduction!r}")


def as_constant(weight: object) -> Tensor | None:
    """Return a tensor of weights that are not learned, from a tensor, an array or a list; None stays."""
    if weight is None or isinstance(weight, Tensor):
        return weight
    return Tensor(np.asarray(weight, np.float32) if not isinstance(weight, np.ndarray) else weight)


class CrossEntropyLoss(Cell):
    """Minus the log-probability of the labels under the softmax of the logits.

    Args:
        ignore_index: A label that counts nothing.
        label_smoothing: Share of the target spread evenly over all classes, in [0, 1].
        reduction: Over the rows.
        weight: `(classes)`, what an example of a class counts; the mean is then a weighted one.
        axis: Where the classes lie; the last by default, 1 for logits of images `(batch, classes, height, width)`.

    Shape:
        logits `(*batch, classes)`, integer labels `(*batch)` or probabilities of the shape of the logits.
    """

    def __init__(
        self,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
        *,
        weight: object = None,
        axis: int = -1,
    ) -> None:
        super().__init__()
        check_reduction(self, reduction)
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"CrossEntropyLoss expects label_smoothing in [0, 1], got {label_smoothing}")
        self.ignore_index, self.label_smoothing, self.reduction = ignore_index, float(label_smoothing), reduction
        self.axis, self.class_weight = axis, as_constant(weight)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        return cross_entropy(
            logits,
            labels,
            weight=self.class_weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
            axis=self.axis,
        )


class MSELoss(Cell):
    """The squared difference; prediction and target of one shape."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return mse(prediction, target, reduction=self.reduction)


class BCELoss(Cell):
    """Binary cross entropy of a probability and a target in [0, 1]; `BCEWithLogitsLoss` is the safer one.

    Args:
        reduction: Over all elements.
        weight: Factor of each loss; broadcast.
    """

    def __init__(self, reduction: Reduction = "mean", *, weight: object = None) -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction
        self.element_weight = as_constant(weight)

    def construct(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return bce(prediction, target, weight=self.element_weight, reduction=self.reduction)


class BCEWithLogitsLoss(Cell):
    """Binary cross entropy of `sigmoid(logits)` and a target in [0, 1], without overflow.

    Args:
        reduction: Over all elements.
        weight: Factor of each loss; broadcast.
        pos_weight: Factor of the part of the target; broadcast, usually one for each class.
    """

    def __init__(self, reduction: Reduction = "mean", *, weight: object = None, pos_weight: object = None) -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction
        self.element_weight, self.positive_weight = as_constant(weight), as_constant(pos_weight)

    def construct(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return bce_with_logits(
            logits, target, weight=self.element_weight, pos_weight=self.positive_weight, reduction=self.reduction
        )


class NLLLoss(Cell):
    """Minus the log-probabilities `(*batch, classes)` at the labels `(*batch)`.

    Args:
        reduction: Over the rows.
        weight: `(classes)`, what an example of a class counts; the mean is then a weighted one.
        ignore_index: A label that counts nothing.
    """

    def __init__(self, reduction: Reduction = "mean", *, weight: object = None, ignore_index: int = -100) -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction
        self.ignore_index, self.class_weight = ignore_index, as_constant(weight)

    def construct(self, log_probabilities: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        return nll(
            log_probabilities,
            labels,
            weight=self.class_weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class KLDivLoss(Cell):
    """`p (log p - log q)` element by element, q given by its logarithm.

    Args:
        reduction: Over all elements; the divergence itself is the sum over classes, averaged over rows.
        log_target: Whether p is given by its logarithm too.
    """

    def __init__(self, reduction: Reduction = "mean", log_target: bool = False) -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.reduction: Reduction = reduction
        self.log_target = log_target

    def construct(self, log_prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return kl_div(log_prediction, target, is_log_target=self.log_target, reduction=self.reduction)


class CTCLoss(Cell):
    """Minus the log-probability of label sequences, summed over all their alignments.

    Args:
        blank: The class that stands for no label.
        reduction: Over the batch; the mean is of each loss divided by its number of labels.
        zero_infinity: Whether sequences that cannot be aligned count 0 instead of infinity.

    Shape:
        log-probabilities `(steps, batch, classes)`, labels `(batch, labels)`, and the lengths of both `(batch)`.

    Reference:
        Graves et al. 2006, "Connectionist temporal classification".
    """

    def __init__(self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        super().__init__()
        check_reduction(self, reduction)
        self.blank, self.zero_infinity = blank, zero_infinity
        self.reduction: Reduction = reduction

    def construct(
        self, log_probabilities: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return the loss."""
        return ctc_loss(
            log_probabilities,
            targets,
            input_lengths,
            target_lengths,
            blank=self.blank,
            zero_infinity=self.zero_infinity,
            reduction=self.reduction,
        )
