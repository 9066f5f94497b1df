"""Poisoned training samples by their features: clusters within a class, and its direction of largest variance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Floats
from ..errors import InvalidInput


@dataclass(frozen=True, slots=True, eq=False)
class Suspicion:
    """What a detector of poison says of N training samples.

    Args:
        scores: `(n,)` larger when more suspicious, comparable within a class.
        suspects: `(n,)` bool.
    """

    scores: Floats
    suspects: NDArray[np.bool_]


def spectral_signatures(features: ArrayLike, y: ArrayLike, *, poison_share: float = 0.05) -> Suspicion:
    """The squared share of each sample in its class's direction of largest variance.

    Args:
        features: `(n, ...)` of the training samples, from a late layer of the trained model.
        y: `(n,)` labels as trained with.
        poison_share: Of a class that is poisoned at most; one and a half times as many are suspected.

    Reference:
        Tran, Li, Madry 2018, arXiv:1811.00636, algorithm 1.
    """
    values, labels = _checked(features, y)
    if not 0 < poison_share < 0.5:
        raise InvalidInput(f"poison_share expects a share between 0 and 0.5, got {poison_share}")
    scores, suspects = np.zeros(len(values)), np.zeros(len(values), np.bool_)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        centred = values[rows] - values[rows].mean(axis=0)
        direction = np.linalg.svd(centred, full_matrices=False)[2][0]
        scores[rows] = (centred @ direction) ** 2
        count = int(np.ceil(1.5 * poison_share * len(rows) - 1e-9))
        suspects[rows[np.argsort(-scores[rows], kind="stable")[:count]]] = True
    return Suspicion(scores, suspects)


def activation_clustering(
    features: ArrayLike, y: ArrayLike, *, components: int = 10, smaller_share: float = 0.35, silhouette: float = 0.3
) -> Suspicion:
    """The smaller of two clusters of each class, suspected where the class falls into two that are far apart.

    Args:
        features: As of `spectral_signatures`.
        y: `(n,)` labels as trained with.
        components: Principal components in which the classes are clustered.
        smaller_share: The smaller cluster must be at most this share of its class.
        silhouette: And the mean silhouette at least this. Our choice: one normal cloud of ten dimensions reaches 0.18,
            two that are six deviations apart 0.51.

    Returns:
        Scores are the silhouettes of the samples of the smaller cluster, negative for all others.

    Reference:
        Chen et al. 2018, arXiv:1811.03728.
    """
    values, labels = _checked(features, y)
    scores, suspects = np.full(len(values), -1.0), np.zeros(len(values), np.bool_)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        if len(rows) < 4:
            continue
        centred = values[rows] - values[rows].mean(axis=0)
        basis = np.linalg.svd(centred, full_matrices=False)[2][:components]
        reduced = centred @ basis.T
        second = _two_means(reduced)
        if 2 * second.sum() > len(rows):
            second = ~second
        widths = _silhouettes(reduced, second)
        scores[rows] = np.where(second, widths, -1.0)
        if second.mean() <= smaller_share and widths.mean() >= silhouette:
            suspects[rows[second]] = True
    return Suspicion(scores, suspects)


def _checked(features: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    values, labels = np.asarray(features, np.float64), np.asarray(y)
    if values.ndim < 2 or len(values) != len(labels) or not len(labels) or not np.isfinite(values).all():
        raise InvalidInput(f"features expect finite rows, one a label, got {values.shape} and {labels.shape}")
    return values.reshape(len(values), -1), labels


def _two_means(points: Floats) -> NDArray[np.bool_]:
    """Lloyd's algorithm from the two ends of the first principal component."""
    centres = points[[points[:, 0].argmin(), points[:, 0].argmax()]]
    second = np.zeros(len(points), np.bool_)
    for _ in range(100):
        distances = ((points[:, None] - centres) ** 2).sum(axis=2)
        now: NDArray[np.bool_] = distances[:, 1] < distances[:, 0]
        if (now == second).all() or now.all() or not now.any():
            return now
        second = now
        centres = np.stack([points[~second].mean(axis=0), points[second].mean(axis=0)])
    return second


def _silhouettes(points: Floats, second: NDArray[np.bool_]) -> Floats:
    """The simplified silhouette: distances to the two centres instead of to all points."""
    if second.all() or not second.any():
        return np.zeros(len(points))
    centres = np.stack([points[~second].mean(axis=0), points[second].mean(axis=0)])
    distances = np.sqrt(((points[:, None] - centres) ** 2).sum(axis=2))
    own, other = np.where(second, distances.T[::-1], distances.T)
    return np.asarray((other - own) / np.maximum(np.maximum(own, other), 1e-300), np.float64)
