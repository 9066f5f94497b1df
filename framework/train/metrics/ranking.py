"""How well scores order what is right before what is wrong: the curve of the receiver and the area under it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .metric import Metric, as_values, metric


@metric("roc_auc", "auc")
class RocAuc(Metric):
    """Probability that a positive target has a higher score than a negative one, ties counting half.

    Scores are `(rows)`, or `(rows, 2)` with those of the positive class last. All of them are kept until `clear`.

    Reference:
        Hanley and McNeil 1982, "The meaning and use of the area under a receiver operating characteristic curve".
    """

    def clear(self) -> None:
        """Nothing; no batch has been seen."""
        self._scores: list[NDArray[np.float64]] = []
        self._targets: list[NDArray[np.bool_]] = []

    def update(self, prediction: Any, target: Any) -> None:
        """Nothing; scores and targets of 0 and 1 count."""
        scores, targets = as_values(prediction).astype(np.float64), as_values(target).reshape(-1)
        scores = scores[:, 1] if scores.ndim == 2 and scores.shape[1] == 2 else scores.reshape(-1)
        if scores.shape != targets.shape or not np.isin(targets, (0, 1)).all():
            raise ValueError(
                f"RocAuc expects a score for each target, which are 0 or 1, got {scores.shape} and {targets.shape}"
            )
        self._scores.append(scores)
        self._targets.append(targets.astype(np.bool_))

    def eval(self) -> float:
        """The area, from 0 to 1.

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
        """False positive rates, true positive rates and the thresholds from which on scores count as positive.

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
