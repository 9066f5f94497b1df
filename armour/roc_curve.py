"""ROC curves of scores, and confidence intervals of the area under them."""

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .array_api import Floats
from .binomial_bounds import proportion_interval

_ROUNDING: Final = 1e-12


def roc_curve(positives: NDArray[np.floating], negatives: NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Return `(points,)` rates of false and of true positives, ascending from 0 to 1.

    Args:
        positives: `(m,)` scores that are meant to be larger, without NaN.
        negatives: `(n,)` scores of the others. Equal scores are decided together.
    """
    thresholds = np.unique(np.concatenate([positives, negatives]))[::-1]

    def rates(scores: NDArray[np.floating]) -> Floats:
        return 1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)

    start = np.zeros(1)
    return np.concatenate([start, rates(negatives)]), np.concatenate([start, rates(positives)])


def area(false_rates: Floats, true_rates: Floats) -> float:
    """Return the area under the curve: how often a positive scores higher, ties as half."""
    return float(np.trapezoid(true_rates, false_rates))


def area_interval(
    false_rates: Floats, true_rates: Floats, positives: int, negatives: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Return a confidence interval of the area, normal with the variance of DeLong.

    Where both sides are separated without an error, that variance is 0. The bound is then Clopper and Pearson's for as
    many independent pairs as the smaller side has samples.

    Args:
        positives, negatives: How many samples the rates come from.

    Raises:
        ModuleNotFoundError: Without SciPy.

    Reference:
        DeLong, DeLong, Clarke-Pearson 1988, doi:10.2307/2531595; from the curve instead of from the scores.
    """
    pairs, middle = min(positives, negatives), area(false_rates, true_rates)
    variance = _area_variance(false_rates, true_rates, positives, negatives) if pairs > 1 else 0.0
    if variance < _ROUNDING:
        return proportion_interval(round(middle * pairs), pairs, confidence)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(variance)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _area_variance(false_rates: Floats, true_rates: Floats, positives: int, negatives: int) -> float:
    middle = area(false_rates, true_rates)
    share_in, share_out = np.diff(true_rates), np.diff(false_rates)
    # For the samples of each point, the share of the other side that is on the right side of them; equal by half.
    inside = 1 - false_rates[1:] + share_out / 2
    outside = true_rates[:-1] + share_in / 2
    spread_in, spread_out = share_in @ (inside - middle) ** 2, share_out @ (outside - middle) ** 2
    return float(spread_in / (positives - 1) + spread_out / (negatives - 1))
