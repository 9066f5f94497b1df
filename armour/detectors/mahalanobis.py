"""The Mahalanobis distance to the nearest class, in the space of a layer's features."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Floats, Images
from ..errors import InvalidInput
from .detector import Features, flat_features


@dataclass(frozen=True, slots=True, eq=False)
class Mahalanobis:
    """The squared distance to the nearest class mean, under one covariance of all classes.

    Args:
        features: Of inputs.
        means: `(classes, d)`.
        precision: `(d, d)` inverse of the covariance.

    Reference:
        Lee et al. 2018, arXiv:1807.03888, equations 1 and 2.
    """

    features: Features
    means: Floats
    precision: Floats

    def scores(self, x: Images) -> Floats:
        """`(n,)`, 0 or more."""
        gaps = flat_features(self.features, x)[:, None] - self.means
        return np.asarray(np.einsum("ncd,de,nce->nc", gaps, self.precision, gaps).min(axis=1), np.float64)


def fit_mahalanobis(features: Features, x: Images, y: ArrayLike, *, ridge: float = 1e-6) -> Mahalanobis:
    """Fitted on clean inputs `(n, ...)` with classes `(n,)`; `ridge` by the mean variance is added to the diagonal."""
    labels = np.asarray(y)
    found = flat_features(features, x)
    if labels.shape != found.shape[:1] or len(found) < 2:
        raise InvalidInput(f"y expects one class for each of 2 inputs or more, got {labels.shape} for {len(found)}")
    classes, members = np.unique(labels, return_inverse=True)
    means = np.stack([found[members == c].mean(axis=0) for c in range(len(classes))])
    gaps = found - means[members]
    covariance = gaps.T @ gaps / len(found)
    level = max(float(np.trace(covariance)) / len(covariance), np.finfo(float).tiny)
    return Mahalanobis(features, means, np.linalg.inv(covariance + ridge * level * np.eye(len(covariance))))
