"""Whether the data still are what the model was trained on: tests of two samples, of a stream, and of single inputs."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..storage import Json, Outcome
from .array_api import Floats, Images
from .errors import InvalidInput
from .model import WrappedModel
from .model.classifier import model_logits
from .row_statistics import pairwise_distances

__all__ = ["Drift", "Energy", "PageHinkley", "ks_drift", "mmd_drift"]


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """The result of a test.

    Args:
        statistic: Of the test; the largest of the features for Kolmogorov-Smirnov.
        p_value: Corrected for the number of features.
        has_drifted: Whether the p-value is below the given level.
        features: `(d,)` p-value of each feature alone; empty where the test looks at all together.
    """

    statistic: float
    p_value: float
    has_drifted: bool
    features: Floats


def ks_drift(reference: ArrayLike, current: ArrayLike, *, level: float = 0.05) -> Drift:
    """Test each feature by Kolmogorov and Smirnov's two-sample test, Bonferroni-corrected.

    Args:
        reference: `(m, ...)` samples from when all was well.
        current: `(n, ...)` samples of now.
        level: Probability of a false alarm.

    Reference:
        Rabanser, Günnemann, Lipton 2019, arXiv:1810.11953; p-values by Stephens' form of the limit distribution.
    """
    before, now = _check_arguments(reference, current, level)
    statistics = np.array([_ks_distance(a, b) for a, b in zip(before.T, now.T, strict=True)])
    effective = math.sqrt(len(before) * len(now) / (len(before) + len(now)))
    p_values = np.array([_kolmogorov_tail((effective + 0.12 + 0.11 / effective) * d) for d in statistics])
    p_value = min(1.0, float(p_values.min()) * len(p_values))
    return Drift(float(statistics.max()), p_value, p_value < level, p_values)


def mmd_drift(
    reference: ArrayLike, current: ArrayLike, *, level: float = 0.05, permutations: int = 200, seed: int = 0
) -> Drift:
    """Test the squared maximum mean discrepancy, under a Gaussian kernel of the median distance, by permutation.

    Reference:
        Gretton et al. 2012, JMLR 13, equation 3 and section 8.
    """
    before, now = _check_arguments(reference, current, level)
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
    """Return P(K > x) of Kolmogorov's distribution."""
    if x < 0.2:
        return 1.0
    terms = (math.exp(-2 * (k * x) ** 2) * (1.0 if k % 2 else -1.0) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * sum(terms)))


def _check_arguments(reference: ArrayLike, current: ArrayLike, level: float) -> tuple[Floats, Floats]:
    before, now = (np.asarray(values, np.float64) for values in (reference, current))
    before, now = (values.reshape(len(values), -1) if values.size else values for values in (before, now))
    if not before.size or not now.size or before.shape[1] != now.shape[1]:
        raise InvalidInput(f"two samples of the same features expected, got shapes {before.shape} and {now.shape}")
    if not (np.isfinite(before).all() and np.isfinite(now).all()):
        raise InvalidInput("reference and current expect finite values, got NaN or infinity")
    if not 0 < level < 1:
        raise InvalidInput(f"level expects a number between 0 and 1, got {level}")
    return before, now


class PageHinkley:
    """A test whether the mean of a stream has risen; it restarts after each alarm.

    Args:
        tolerance: Rises smaller than this are ignored, in units of the stream.
        threshold: How much rise is gathered before the alarm; larger is slower and surer.
        patience: Values that are seen before any alarm.

    Reference:
        Page 1954, Biometrika 41; in the form of Gama et al. 2014, ACM Computing Surveys 46, section 3.2.2.
    """

    def __init__(self, *, tolerance: float = 0.005, threshold: float = 50.0, patience: int = 30) -> None:
        if not (tolerance >= 0 and threshold > 0 and patience >= 1):
            raise InvalidInput(
                f"tolerance, threshold, patience expect 0 or more, above 0, 1 or more; "
                f"got {tolerance}, {threshold}, {patience}"
            )
        self._tolerance, self._threshold, self._patience = tolerance, threshold, patience
        self.drifts: list[int] = []
        self._seen = 0
        self._count, self._mean, self._gathered = 0, 0.0, 0.0

    def update(self, value: float) -> bool:
        """Take the next value and return whether the stream has drifted; the value's number then joins `drifts`."""
        if not math.isfinite(value):
            raise InvalidInput(f"value number {self._seen} of the stream expects a finite number, got {value}")
        self._seen += 1
        self._count += 1
        self._mean += (value - self._mean) / self._count
        self._gathered = max(0.0, self._gathered + value - self._mean - self._tolerance)
        if self._count < self._patience or self._gathered <= self._threshold:
            return False
        self.drifts.append(self._seen - 1)
        self._restart()
        return True

    def _restart(self) -> None:
        self._count, self._mean, self._gathered = 0, 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Energy:
    """The free energy -T log sum exp(logits / T): low for inputs of the training distribution.

    Args:
        model: Wrapped.
        temperature: T, above 0.

    Reference:
        Liu et al. 2020, arXiv:2010.03759, equation 3.
    """

    model: WrappedModel
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise InvalidInput(f"temperature expects a number above 0, got {self.temperature}")

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` energies, larger for inputs less like the training data."""
        logits = model_logits(self.model, x) / self.temperature
        return np.asarray(-self.temperature * np.logaddexp.reduce(logits, axis=1), np.float64)


_FEATURES: Final = 256  # whose p-values are kept


def drift_outcome(test: str, drift: Drift, *, level: float, reference: int, current: int) -> Outcome:
    """Return the outcome of a test for drift, with the p-values of at most 256 features.

    Args:
        test: `ks` or `mmd`.
        reference: Samples from when all was well.
        current: Samples of now.
    """
    details: dict[str, Json] = {
        "kind": "drift",
        "statistic": drift.statistic,
        "p_value": drift.p_value,
        "level": level,
        "has_drifted": drift.has_drifted,
        "features": [float(value) for value in drift.features[:_FEATURES]],
        "reference": reference,
        "current": current,
    }
    return Outcome(f"drift {test}", "", 0.0, math.nan, current, details=details)
