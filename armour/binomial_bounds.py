"""Confidence bounds of a probability from the counts of a trial: exact ones, and Wilson's in closed form."""

import math
from importlib import import_module
from statistics import NormalDist
from types import ModuleType

from .errors import InvalidInput


def lower_confidence(successes: int, trials: int, alpha: float) -> float:
    """Return the smallest success probability that `successes` or more of `trials` do not refute at level `alpha`."""
    if successes == 0:
        return 0.0
    return float(_special().betaincinv(successes, trials - successes + 1, alpha))


def proportion_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval that holds the success probability in at least that share of all experiments.

    Args:
        successes: 0 to `trials`.
        trials: 1 or more.
        confidence: Between 0 and 1.

    Raises:
        InvalidInput: A count or the confidence is out of range.
        ModuleNotFoundError: Without SciPy.

    Reference:
        Clopper and Pearson 1934, doi:10.1093/biomet/26.4.404.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise InvalidInput(f"successes expects 0 to trials, trials 1 or more, got {successes} of {trials}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence expects a share between 0 and 1, got {confidence}")
    alpha = (1 - confidence) / 2
    return lower_confidence(successes, trials, alpha), 1 - lower_confidence(trials - successes, trials, alpha)


def wilson_interval(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the success probability by its score test, in closed form and so without SciPy.

    It is also an interval of the mean probability of trials whose probabilities differ, whose variance is smaller.

    Args:
        successes: 0 to `trials`.
        trials: Above 0; a broken number where trials depend on each other and are worth fewer.
        confidence: Between 0 and 1.

    Reference:
        Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    middle = share + weight / 2
    reach = math.sqrt(share * (1 - share) * weight + weight * weight / 4)
    return max(0.0, (middle - reach) / (1 + weight)), min(1.0, (middle + reach) / (1 + weight))


def _special() -> ModuleType:
    """Import scipy.special, which only the extras install."""
    try:
        return import_module("scipy.special")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "exact confidence bounds expect SciPy, which is not installed; pip install mindscope[privacy]"
        ) from error
