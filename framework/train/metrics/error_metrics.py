"""How far predictions are from their targets, and what a loss was on average."""

from math import exp

import numpy as np

from ...dtype import Array
from .metric import Metric, Samples, as_values, metric


class _MeanError(Metric):
    """The mean of an error over all elements of all batches."""

    def clear(self) -> None:
        """Forget all batches."""
        self._total, self._count = 0.0, 0

    def update(self, prediction: Samples, target: Samples) -> None:
        """Count prediction and target of one shape."""
        found, wanted = as_values(prediction), as_values(target)
        if found.shape != wanted.shape:
            raise ValueError(
                f"{type(self).__name__} expects prediction and target of one shape, got {found.shape} "
                f"and {wanted.shape}"
            )
        self._total += float(self._error(found.astype(np.float64) - wanted.astype(np.float64)).sum())
        self._count += found.size

    def eval(self) -> float:
        """Return the mean."""
        if not self._count:
            raise self._none_seen()
        return self._total / self._count

    def _error(self, difference: Array) -> Array:
        raise NotImplementedError


@metric("mae")
class MAE(_MeanError):
    """Mean absolute difference."""

    def _error(self, difference: Array) -> Array:
        absolute: Array = np.abs(difference)
        return absolute


@metric("mse")
class MSE(_MeanError):
    """Mean squared difference."""

    def _error(self, difference: Array) -> Array:
        squared: Array = np.square(difference)
        return squared


@metric("perplexity")
class Perplexity(Metric):
    """`exp` of the mean negative log-probability of the targets.

    Args:
        ignore_label: A target that does not count.
    """

    def __init__(self, ignore_label: int | None = None) -> None:
        self.ignore_label = ignore_label
        super().__init__()

    def clear(self) -> None:
        """Forget all batches."""
        self._total, self._count = 0.0, 0

    def update(self, prediction: Samples, target: Samples) -> None:
        """Count logits `(..., classes)`, not probabilities, and classes `(...)`."""
        scores, labels = as_values(prediction), as_values(target)
        if scores.ndim != labels.ndim + 1 or scores.shape[:-1] != labels.shape:
            raise ValueError(f"Perplexity expects logits (..., classes) for targets {labels.shape}, got {scores.shape}")
        rows, wanted = scores.reshape(-1, scores.shape[-1]).astype(np.float64), labels.reshape(-1)
        if self.ignore_label is not None:
            rows, wanted = rows[wanted != self.ignore_label], wanted[wanted != self.ignore_label]
        if not wanted.size:
            return
        top = rows.max(-1, keepdims=True)
        log_total = np.log(np.exp(rows - top).sum(-1)) + top[:, 0]
        self._total += float((log_total - rows[np.arange(len(wanted)), wanted]).sum())
        self._count += len(wanted)

    def eval(self) -> float:
        """Return the perplexity, 1 (certain and right) or more; the number of classes where nothing is known."""
        if not self._count:
            raise self._none_seen()
        return exp(self._total / self._count)


@metric("loss")
class Loss(Metric):
    """The mean of losses, each weighted by the rows of its batch; `Model.eval` feeds it with the loss function's."""

    def clear(self) -> None:
        """Forget all batches."""
        self._total, self._count = 0.0, 0

    def update(self, prediction: Samples, target: Samples = 1) -> None:
        """Count the loss `prediction` of a batch of `target` rows."""
        rows = int(as_values(target))
        self._total += float(as_values(prediction).mean()) * rows
        self._count += rows

    def eval(self) -> float:
        """Return the mean."""
        if not self._count:
            raise self._none_seen()
        return self._total / self._count
