"""Metrics of classification: accuracy, confusion, precision, recall, F1, area under the ROC curve."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...dtype import Array
from .metric import Metric, Samples, as_values, classes_of, metric


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
        """Forget all batches."""
        self._right, self._count = 0, 0

    def update(self, prediction: Samples, target: Samples) -> None:
        """Count the batch."""
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
        """Return the share, from 0 to 1."""
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
        """Forget all batches."""
        self._right, self._count = 0, 0

    def update(self, prediction: Samples, target: Samples) -> None:
        """Count scores `(..., classes)` and classes `(...)`."""
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
        """Return the share, from 0 to 1."""
        if not self._count:
            raise self._none_seen()
        return self._right / self._count


metric("top_1_accuracy")(lambda: TopKCategoricalAccuracy(1))
metric("top_5_accuracy")(lambda: TopKCategoricalAccuracy(5))


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
        """Forget all batches."""
        size = self.num_classes or 0
        self._counts = np.zeros((size, size), np.int64)

    def update(self, prediction: Samples, target: Samples) -> None:
        """Count scores `(..., classes)` or classes `(...)`, and classes `(...)`."""
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

    def eval(self) -> Array:
        """Return counts, or shares, `(targets, predictions)`; where nothing can be divided, 0."""
        counts = self.counts()
        if self.normalize == "none":
            return counts.copy()
        axes: dict[str, int | None] = {"target": 1, "prediction": 0, "all": None}
        return _ratio(counts.astype(np.float64), counts.sum(axes[self.normalize], keepdims=True))

    def counts(self) -> NDArray[np.int64]:
        """Return the counts as they are.

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
        """Forget all batches."""
        self._matrix.clear()

    def update(self, prediction: Samples, target: Samples) -> None:
        """Count scores `(..., classes)` or classes `(...)`, and classes `(...)`."""
        self._matrix.update(prediction, target)

    def eval(self) -> float | NDArray[np.float64]:
        """Return one score a class, or one; where nothing can be divided, 0."""
        counts = self._matrix.counts()
        right, predicted, wanted = np.diag(counts), counts.sum(0), counts.sum(1)
        if self.average == "micro":
            return float(self._score(*(np.asarray(x.sum()) for x in (right, predicted, wanted))))
        scores = self._score(right, predicted, wanted)
        if self.average == "none":
            return scores
        return float(scores.mean() if self.average == "macro" else (scores * wanted).sum() / wanted.sum())

    def _score(self, right: Array, predicted: Array, wanted: Array) -> NDArray[np.float64]:
        raise NotImplementedError


@metric("precision")
class Precision(_FromCounts):
    """Share of the predictions of a class that are right."""

    def _score(self, right: Array, predicted: Array, wanted: Array) -> NDArray[np.float64]:
        del wanted
        return _ratio(right, predicted)


@metric("recall")
class Recall(_FromCounts):
    """Share of the targets of a class that are found."""

    def _score(self, right: Array, predicted: Array, wanted: Array) -> NDArray[np.float64]:
        del predicted
        return _ratio(right, wanted)


@metric("F1", "f1")
class F1(_FromCounts):
    """Harmonic mean of precision and recall: `2 right / (predicted + wanted)`."""

    def _score(self, right: Array, predicted: Array, wanted: Array) -> NDArray[np.float64]:
        return _ratio(2 * right, predicted + wanted)


def _ratio(a: Array, b: Array) -> NDArray[np.float64]:
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape))
    np.divide(a, b, out=out, where=np.broadcast_to(b != 0, out.shape))
    return out


@metric("roc_auc", "auc")
class RocAuc(Metric):
    """Probability that a positive target has a higher score than a negative one, ties counting half.

    Scores are `(rows)`, or `(rows, 2)` with those of the positive class last. All of them are kept until `clear`.

    Reference:
        Hanley and McNeil 1982, "The meaning and use of the area under a receiver operating characteristic curve".
    """

    def clear(self) -> None:
        """Forget all batches."""
        self._scores: list[NDArray[np.float64]] = []
        self._targets: list[NDArray[np.bool_]] = []

    def update(self, prediction: Samples, target: Samples) -> None:
        """Count scores and targets of 0 and 1."""
        scores, targets = as_values(prediction).astype(np.float64), as_values(target).reshape(-1)
        scores = scores[:, 1] if scores.ndim == 2 and scores.shape[1] == 2 else scores.reshape(-1)
        if scores.shape != targets.shape or not np.isin(targets, (0, 1)).all():
            raise ValueError(
                f"RocAuc expects a score for each target, which are 0 or 1, got {scores.shape} and {targets.shape}"
            )
        self._scores.append(scores)
        self._targets.append(targets.astype(np.bool_))

    def eval(self) -> float:
        """Return the area, from 0 to 1.

        Raises:
            ValueError: No batch was seen, or all targets are equal.
        """
        scores, targets = self._together()
        order = np.argsort(scores, kind="stable")
        _, first, counts = np.unique(scores[order], return_index=True, return_counts=True)
        ranks = np.empty(len(scores))
        ranks[order] = np.repeat(first + (counts + 1) / 2.0, counts)  # equal scores share their mean rank
        positives = int(targets.sum())
        wins = ranks[targets].sum() - positives * (positives + 1) / 2.0
        return float(wins / (positives * (len(targets) - positives)))

    def curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return False positive rates, true positive rates and the thresholds from which on scores count as positive.

        Raises:
            ValueError: No batch was seen, or all targets are equal.
        """
        scores, targets = self._together()
        order = np.argsort(-scores, kind="stable")
        falling, right = scores[order], targets[order]
        last = np.r_[np.flatnonzero(np.diff(falling)), len(falling) - 1]
        found = np.cumsum(right)[last]
        wrong = 1 + last - found
        thresholds = np.r_[np.inf, falling[last]]
        return np.r_[0.0, wrong / (~targets).sum()], np.r_[0.0, found / targets.sum()], thresholds

    def _together(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        if not self._targets:
            raise self._none_seen()
        scores, targets = np.concatenate(self._scores), np.concatenate(self._targets)
        if targets.all() or not targets.any():
            raise ValueError("RocAuc expects targets of both kinds, got one only; evaluate on more data")
        return scores, targets
