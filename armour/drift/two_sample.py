"""Do two samples come from one distribution? Kolmogorov and Smirnov's test of each feature, and the MMD of all."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Floats
from ..arrays.statistics import pairwise_distances
from ..errors import InvalidInput


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """What a test found.

    Args:
        statistic: Of the test; the largest of the features for Kolmogorov-Smirnov.
        p_value: Corrected for the number of features.
        has_drifted: Whether the p-value is below the level that was asked for.
        features: `(d,)` p-value of each feature alone; empty where the test looks at all together.
    """

    statistic: float
    p_value: float
    has_drifted: bool
    features: Floats


def ks_drift(reference: ArrayLike, current: ArrayLike, *, level: float = 0.05) -> Drift:
    """The two-sample Kolmogorov-Smirnov test of each feature, Bonferroni-corrected.

    Args:
        reference: `(m, ...)` samples from when all was well.
        current: `(n, ...)` samples of now.
        level: Probability of a false alarm.

    Reference:
        Rabanser, Günnemann, Lipton 2019, arXiv:1810.11953; p-values by Stephens' form of the limit distribution.
    """
    before, now = _checked(reference, current, level)
    statistics = np.array([_ks_distance(a, b) for a, b in zip(before.T, now.T, strict=True)])
    effective = math.sqrt(len(before) * len(now) / (len(before) + len(now)))
    p_values = np.array([_kolmogorov_tail((effective + 0.12 + 0.11 / effective) * d) for d in statistics])
    p_value = min(1.0, float(p_values.min()) * len(p_values))
    return Drift(float(statistics.max()), p_value, p_value < level, p_values)


def mmd_drift(
    reference: ArrayLike, current: ArrayLike, *, level: float = 0.05, permutations: int = 200, seed: int = 0
) -> Drift:
    """The squared maximum mean discrepancy under a Gaussian kernel of the median distance, tested by permutation.

    Reference:
        Gretton et al. 2012, JMLR 13, equation 3 and section 8.
    """
    before, now = _checked(reference, current, level)
    if permutations < 1:
        raise InvalidInput(f"permutations expects 1 or more, got {permutations}")
    if min(len(before), len(now)) < 2:
        raise InvalidInput(f"the discrepancy expects 2 samples or more on each side, got {len(before)} and {len(now)}")
    joined = np.concatenate([before, now])
    distances = pairwise_distances(joined, joined)
    middle = float(np.median(distances[np.triu_indices(len(joined), 1)])) or 1.0
    kernel = np.exp(-((distances / middle) ** 2) / 2)
    generator = np.random.default_rng(seed)
    found = _discrepancy(kernel, np.arange(len(joined)), len(before))
    larger = sum(
        _discrepancy(kernel, generator.permutation(len(joined)), len(before)) >= found for _ in range(permutations)
    )
    p_value = (1 + larger) / (1 + permutations)
    return Drift(found, p_value, p_value < level, np.zeros(0))


def _discrepancy(kernel: Floats, order: NDArray[np.int64], m: int) -> float:
    first, second = order[:m], order[m:]
    n = len(second)
    inner = [kernel[np.ix_(rows, rows)].sum() - np.trace(kernel[np.ix_(rows, rows)]) for rows in (first, second)]
    between = kernel[np.ix_(first, second)].mean()
    return float(inner[0] / (m * (m - 1)) + inner[1] / (n * (n - 1)) - 2 * between)


def _ks_distance(a: Floats, b: Floats) -> float:
    points = np.concatenate([a, b])
    shares = [np.searchsorted(np.sort(values), points, side="right") / len(values) for values in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def _kolmogorov_tail(x: float) -> float:
    """P(K > x) of Kolmogorov's distribution."""
    if x < 0.2:
        return 1.0
    terms = (math.exp(-2 * (k * x) ** 2) * (1.0 if k % 2 else -1.0) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * sum(terms)))


def _checked(reference: ArrayLike, current: ArrayLike, level: float) -> tuple[Floats, Floats]:
    before, now = (np.asarray(values, np.float64) for values in (reference, current))
    before, now = (values.reshape(len(values), -1) if values.size else values for values in (before, now))
    if not before.size or not now.size or before.shape[1] != now.shape[1]:
        raise InvalidInput(f"two samples of the same features expected, got shapes {before.shape} and {now.shape}")
    if not (np.isfinite(before).all() and np.isfinite(now).all()):
        raise InvalidInput("reference and current expect finite values, got NaN or infinity")
    if not 0 < level < 1:
        raise InvalidInput(f"level expects a number between 0 and 1, got {level}")
    return before, now
