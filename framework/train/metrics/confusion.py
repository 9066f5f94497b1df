"""Which classes are taken for which, and what follows from it: precision, recall, F1."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .metric import Metric, classes_of, metric

Average = Literal["none", "macro", "micro", "weighted"]
Normalize = Literal["none", "target", "prediction", "all"]


@metric("confusion_matrix")
class ConfusionMatrix(Metric):
    """`matrix[target, prediction]`, counted over all batches.

    Args:
        num_classes: How many; as many as were seen by default.
        normalize: By what the counts are divided: those of a target, of a prediction, or all.
    """

    def __init__(self, num_classes: int | None = None, normalize: Normalize = "none") -> None:
        if num_classes is not None and num_classes < 1:
            raise ValueError(f"ConfusionMatrix expects num_classes of 1 or more, got {num_classes}")
        if normalize not in ("none", "target", "prediction", "all"):
            raise ValueError(f"ConfusionMatrix expects normalize none, target, prediction or all, got {normalize!r}")
        self.num_classes, self.normalize = num_classes, normalize
        super().__init__()

    def clear(self) -> None:
        """Nothing; no batch has been seen."""
        size = self.num_classes or 0
        self._counts = np.zeros((size, size), np.int64)

    def update(self, prediction: Any, target: Any) -> None:
        """Nothing; scores `(..., classes)` or classes `(...)`, and classes `(...)` count."""
        found, labels = classes_of(self, prediction, target)
        if not labels.size:
            return
        most = 1 + int(max(found.max(), labels.max()))
        least = int(min(found.min(), labels.min()))
        size = max(most, len(self._counts)) if self.num_classes is None else self.num_classes
        if most > size or least < 0:
            raise ValueError(f"{type(self).__name__} expects classes from 0 to {size - 1}, got {least} to {most - 1}")
        counts = np.bincount(labels * size + found, minlength=size * size).reshape(size, size)
        counts[: len(self._counts), : len(self._counts)] += self._counts
        self._counts = counts

    def eval(self) -> NDArray[Any]:
        """Counts, or shares, `(targets, predictions)`; where nothing can be divided, 0."""
        counts = self.counts()
        if self.normalize == "none":
            return counts.copy()
        axes: dict[str, Any] = {"target": 1, "prediction": 0, "all": None}
        return _ratio(counts.astype(np.float64), counts.sum(axes[self.normalize], keepdims=True))

    def counts(self) -> NDArray[np.int64]:
        """The counts as they are.

        Raises:
            ValueError: No batch was seen.
        """
        if not self._counts.sum():
            raise self._none_seen()
        return self._counts


class _FromCounts(Metric):
    """A score of each class, or their average.

    Args:
        average: `none` (one score a class), `macro` (their mean), `weighted` (their mean by the number of targets) or
            `micro` (of all classes counted together).
        num_classes: How many; as many as were seen by default.
    """

    def __init__(self, average: Average = "none", num_classes: int | None = None) -> None:
        if average not in ("none", "macro", "micro", "weighted"):
            raise ValueError(f"{type(self).__name__} expects average none, macro, micro or weighted, got {average!r}")
        self.average = average
        self._matrix = ConfusionMatrix(num_classes)
        super().__init__()

    def clear(self) -> None:
        """Nothing; no batch has been seen."""
        self._matrix.clear()

    def update(self, prediction: Any, target: Any) -> None:
        """Nothing; scores `(..., classes)` or classes `(...)`, and classes `(...)` count."""
        self._matrix.update(prediction, target)

    def eval(self) -> Any:
        """One score a class, or one; where nothing can be divided, 0."""
        counts = self._matrix.counts()
        right, predicted, wanted = np.diag(counts), counts.sum(0), counts.sum(1)
        if self.average == "micro":
            return float(self._score(*(np.asarray(x.sum()) for x in (right, predicted, wanted))))
        scores = self._score(right, predicted, wanted)
        if self.average == "none":
            return scores
        return float(scores.mean() if self.average == "macro" else (scores * wanted).sum() / wanted.sum())

    def _score(self, right: NDArray[Any], predicted: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float64]:
        raise NotImplementedError


@metric("precision")
class Precision(_FromCounts):
    """Share of the predictions of a class that are right."""

    def _score(self, right: NDArray[Any], predicted: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float64]:
        del wanted
        return _ratio(right, predicted)


@metric("recall")
class Recall(_FromCounts):
    """Share of the targets of a class that are found."""

    def _score(self, right: NDArray[Any], predicted: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float64]:
        del predicted
        return _ratio(right, wanted)


@metric("F1", "f1")
class F1(_FromCounts):
    """Harmonic mean of precision and recall: `2 right / (predicted + wanted)`."""

    def _score(self, right: NDArray[Any], predicted: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float64]:
        return _ratio(2 * right, predicted + wanted)


def _ratio(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape))
    np.divide(a, b, out=out, where=np.broadcast_to(b != 0, out.shape))
    return out
