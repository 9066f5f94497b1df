"""Detectors that compare an input's features with those of clean inputs or of earlier queries."""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..array_api import Floats, Images
from ..errors import InvalidInput
from ..row_statistics import pairwise_distances
from .detector import Features, flat_features


@dataclass(frozen=True, slots=True, eq=False)
class LocalIntrinsicDimension:
    """The maximum likelihood estimate from the distances to the nearest of a set of clean inputs.

    Args:
        features: Of inputs.
        reference: `(m, d)` features of clean inputs.
        neighbours: k, 2 to m.

    Reference:
        Ma et al. 2018, arXiv:1801.02613, equation 4.
    """

    features: Features
    reference: Floats
    neighbours: int = 20

    def __post_init__(self) -> None:
        if not 2 <= self.neighbours <= len(self.reference):
            raise InvalidInput(f"neighbours expects 2 to {len(self.reference)} references, got {self.neighbours}")

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` dimensions above 0; an input that is itself a reference is not its own neighbour."""
        distances = pairwise_distances(flat_features(self.features, x), self.reference)
        distances[distances < 1e-12] = np.inf
        nearest = np.sort(distances, axis=1)[:, : self.neighbours]
        if not np.isfinite(nearest).all():
            raise InvalidInput("neighbours expects fewer than the references that differ from each input")
        logs = np.log(nearest / nearest[:, -1:]).mean(axis=1)
        return np.asarray(-1 / np.minimum(logs, -1e-12), np.float64)


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
        """Return `(n,)` squared distances, 0 or more."""
        gaps = flat_features(self.features, x)[:, None] - self.means
        return np.asarray(np.einsum("ncd,de,nce->nc", gaps, self.precision, gaps).min(axis=1), np.float64)


def fit_mahalanobis(features: Features, x: Images, y: ArrayLike, *, ridge: float = 1e-6) -> Mahalanobis:
    """Fit to clean inputs `(n, ...)` with classes `(n,)`; `ridge` times the mean variance is added to the diagonal."""
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


class QuerySimilarity:
    """The similarity of each query to its nearest predecessors among one client's last queries.

    Args:
        features: In which queries are compared.
        neighbours: How many predecessors are averaged.
        memory: How many queries are remembered.

    Reference:
        Chen, Carlini, Wagner 2019, arXiv:1907.05587, section 4.
    """

    def __init__(self, features: Features, *, neighbours: int = 50, memory: int = 1000) -> None:
        if not 1 <= neighbours <= memory:
            raise InvalidInput(f"neighbours expects 1 to memory, got {neighbours} and {memory}")
        self._features, self._neighbours = features, neighbours
        self._past: deque[Floats] = deque(maxlen=memory)

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` negated mean distances to the nearest predecessors, in order; -inf while there are too few."""
        found = np.full(len(x), -np.inf)
        for row, query in enumerate(flat_features(self._features, x)):
            if len(self._past) >= self._neighbours:
                distances = pairwise_distances(query[None], np.stack(self._past))[0]
                found[row] = -np.partition(distances, self._neighbours - 1)[: self._neighbours].mean()
            self._past.append(query)
        return found

    def forget(self) -> None:
        """Forget all queries, as after an alarm."""
        self._past.clear()
