"""How well scores tell members of a training set from others, at the few false alarms that an accusation allows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Floats
from ..errors import InvalidInput


@dataclass(frozen=True, slots=True, eq=False)
class Leakage:
    """The receiver operating characteristic of a membership attack.

    Args:
        false_positive_rates: `(points,)` from 0 to 1, ascending.
        true_positive_rates: `(points,)` at these, ascending; 0 and 1 at the ends.
    """

    false_positive_rates: Floats
    true_positive_rates: Floats

    @property
    def auc(self) -> float:
        """Area under the curve: 0.5 for a guess, 1 for certainty."""
        return float(np.trapezoid(self.true_positive_rates, self.false_positive_rates))

    @property
    def advantage(self) -> float:
        """The largest difference of true and false positive rate."""
        return float(np.max(self.true_positive_rates - self.false_positive_rates))

    def tpr_at(self, false_positive_rate: float) -> float:
        """Share of members recognised when at most that share of others is accused; 0.001 and 0.01 are usual.

        Raises:
            InvalidInput: The rate is not between 0 and 1.
        """
        if not 0 <= false_positive_rate <= 1:
            raise InvalidInput(f"false_positive_rate expects a share from 0 to 1, got {false_positive_rate}")
        allowed = self.false_positive_rates <= false_positive_rate * (1 + 1e-12)
        return float(self.true_positive_rates[allowed][-1])

    def __str__(self) -> str:
        return (
            f"AUC {self.auc:.3f}, TPR {self.tpr_at(0.001):.2%} at 0.1 % FPR, {self.tpr_at(0.01):.2%} at 1 % FPR, "
            f"advantage {self.advantage:.3f}"
        )


def measure_leakage(members: ArrayLike, others: ArrayLike) -> Leakage:
    """The characteristic of scores that are meant to be larger for members.

    Args:
        members: `(m,)` scores of samples that the model was trained on.
        others: `(n,)` scores of samples that it never saw. Equal scores are decided together.

    Raises:
        InvalidInput: One of them is empty or has NaN.
    """
    inside, outside = (np.asarray(values, np.float64).reshape(-1) for values in (members, others))
    for name, scores in (("members", inside), ("others", outside)):
        if not len(scores) or np.isnan(scores).any():
            raise InvalidInput(f"{name} expects one score or more and no NaN, got {len(scores)} scores")
    thresholds = np.unique(np.concatenate([inside, outside]))[::-1]

    def rates(scores: Floats) -> Floats:
        return 1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)

    start = np.zeros(1)
    return Leakage(np.concatenate([start, rates(outside)]), np.concatenate([start, rates(inside)]))
