"""Whether a short series rises or falls, whatever the shape of its curve and the tails of its noise."""

from collections.abc import Sequence

import numpy as np


def trend(values: Sequence[float]) -> float:
    """Score of the Mann-Kendall test: the number of rising pairs less that of falling ones, in standard deviations.

    Args:
        values: Finite, oldest first. Twelve that only rise score 4.5, ten 4.0.

    Returns:
        Positive where the series rises; 0 for fewer than three values.

    Reference:
        Mann 1945, Econometrica 13, p. 245; Kendall 1975, Rank Correlation Methods, chapter 1.
    """
    count = len(values)
    if count < 3:
        return 0.0
    array = np.asarray(values, dtype=np.float64)
    signs = np.sign(array[None, :] - array[:, None])
    score = float(np.triu(signs, 1).sum())
    return score / float(np.sqrt(count * (count - 1) * (2 * count + 5) / 18))
