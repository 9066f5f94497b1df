"""How often the right class comes first, or among the first."""

from typing import Any

import numpy as np

from .metric import Metric, as_values, classes_of, metric


@metric("accuracy", "acc")
class Accuracy(Metric):
    """Share of targets whose predicted class is right; of `multilabel` rows, those right in every label.

    Args:
        eval_type: `classification` (scores `(..., classes)` and classes), or `multilabel` (rows of zeros and ones).
    """

    def __init__(self, eval_type: str = "classification") -> None:
        if eval_type not in ("classification", "multilabel"):
            raise ValueError(f"Accuracy expects eval_type classification or multilabel, got {eval_type!r}")
        self.eval_type = eval_type
        super().__init__()

    def clear(self) -> None:
        """Nothing; no batch has been seen."""
        self._right, self._count = 0, 0

    def update(self, prediction: Any, target: Any) -> None:
        """Nothing; the batch counts."""
        if self.eval_type == "classification":
            found, labels = classes_of(self, prediction, target)
            right = found == labels
        else:
            found, labels = as_values(prediction), as_values(target)
            if found.shape != labels.shape:
                raise ValueError(f"Accuracy expects labels and predictions of one shape, got {found.shape}")
            right = (found == labels).reshape(len(labels), -1).all(1)
        self._right += int(right.sum())
        self._count += right.size

    def eval(self) -> float:
        """The share, from 0 to 1."""
        if not self._count:
            raise self._none_seen()
        return self._right / self._count


@metric("topk")
class TopKCategoricalAccuracy(Metric):
    """Share of targets among the `k` classes of the highest scores; of equal scores the earlier class counts first.

    Args:
        k: How many.
    """

    def __init__(self, k: int = 5) -> None:
        if k < 1:
            raise ValueError(f"TopKCategoricalAccuracy expects k of 1 or more, got {k}")
        self.k = k
        super().__init__()

    def clear(self) -> None:
        """Nothing; no batch has been seen."""
        self._right, self._count = 0, 0

    def update(self, prediction: Any, target: Any) -> None:
        """Nothing; scores `(..., classes)` and classes `(...)` count."""
        scores, labels = as_values(prediction), as_values(target)
        if scores.ndim != labels.ndim + 1 or scores.shape[:-1] != labels.shape:
            raise ValueError(
                f"TopKCategoricalAccuracy expects scores (..., classes) for targets {labels.shape}, got {scores.shape}"
            )
        rows, wanted = scores.reshape(-1, scores.shape[-1]), labels.reshape(-1)
        first = np.argsort(-rows, axis=-1, kind="stable")[:, : self.k]
        self._right += int((first == wanted[:, None]).any(1).sum())
        self._count += len(wanted)

    def eval(self) -> float:
        """The share, from 0 to 1."""
        if not self._count:
            raise self._none_seen()
        return self._right / self._count


metric("top_1_accuracy")(lambda: TopKCategoricalAccuracy(1))
metric("top_5_accuracy")(lambda: TopKCategoricalAccuracy(5))
