"""Poison in the training data, found by features within a class, and triggers in the inputs, found by blending."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .array_api import Floats, Images
from .errors import InvalidInput
from .model import WrappedModel
from .model.classifier import probabilities

__all__ = ["Strip", "Suspicion", "activation_clustering", "spectral_signatures"]


@dataclass(frozen=True, slots=True, eq=False)
class Suspicion:
    """The verdict of a poison detector on N training samples.

    Args:
        scores: `(n,)` larger when more suspicious, comparable within a class.
        suspects: `(n,)` bool.
    """

    scores: Floats
    suspects: NDArray[np.bool_]


def spectral_signatures(features: ArrayLike, y: ArrayLike, *, poison_share: float = 0.05) -> Suspicion:
    """Score each sample by its squared component along its class's direction of largest variance.

    Args:
        features: `(n, ...)` of the training samples, from a late layer of the trained model.
        y: `(n,)` labels as trained with.
        poison_share: Of a class that is poisoned at most; one and a half times as many are suspected.

    Reference:
        Tran, Li, Madry 2018, arXiv:1811.00636, algorithm 1.
    """
    values, labels = _check_arguments(features, y)
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
    """Split each class into two clusters and suspect the smaller one where both lie far apart.

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
    values, labels = _check_arguments(features, y)
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


def _check_arguments(features: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    values, labels = np.asarray(features, np.float64), np.asarray(y)
    if values.ndim < 2 or len(values) != len(labels) or not len(labels) or not np.isfinite(values).all():
        raise InvalidInput(f"features expect finite rows, one a label, got {values.shape} and {labels.shape}")
    return values.reshape(len(values), -1), labels


def _two_means(points: Floats) -> NDArray[np.bool_]:
    """Split the points in two by Lloyd's algorithm, from the two ends of the first principal component."""
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
    """Return the simplified silhouettes: distances to the two centres instead of to all points."""
    if second.all() or not second.any():
        return np.zeros(len(points))
    centres = np.stack([points[~second].mean(axis=0), points[second].mean(axis=0)])
    distances = np.sqrt(((points[:, None] - centres) ** 2).sum(axis=2))
    own, other = np.where(second, distances.T[::-1], distances.T)
    return np.asarray((other - own) / np.maximum(np.maximum(own, other), 1e-300), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """The negated mean entropy of the predictions for an input blended with clean ones.

    Args:
        model: Wrapped.
        clean: `(m, ...)` inputs to blend with, clipped to the model's bounds after.
        blends: How many are drawn for each input.
        weight: Of the clean input; the suspect one is added in full. The paper takes 1, which saturates unit boxes.
        seed: Of the draw.

    Reference:
        Gao et al. 2019, arXiv:1902.06531, section 4.
    """

    model: WrappedModel
    clean: Images
    blends: int = 50
    weight: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not len(self.clean) or self.blends < 1 or not self.weight > 0:
            raise InvalidInput(
                f"expected clean inputs, blends >= 1 and weight > 0, got {len(self.clean)}, {self.blends}"
            )

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` scores up to 0, larger for inputs more like a trigger."""
        generator = np.random.default_rng(self.seed)
        total = np.zeros(len(x))
        for _ in range(self.blends):
            others = self.clean[generator.integers(len(self.clean), size=len(x))]
            blended = np.clip(x + self.weight * others, *self.model.bounds).astype(x.dtype)
            p = probabilities(self.model, blended)
            total += (p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        return total / self.blends
