"""Poison in the training data, found by features within a class, and triggers in the inputs, found by blending."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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


#: Separation of two clusters from which on the smaller one is suspected. Our choice: a clean separation begins at 2, a
#: uniform line that is cut in the middle has 3.5, and in the tests clean classes of trained networks reach 4 in at most
#: one of twenty samples.
_SEPARATION: Final = 4.0


def activation_clustering(
    features: ArrayLike,
    y: ArrayLike,
    *,
    components: int = 10,
    smaller_share: float = 0.35,
    separation: float = _SEPARATION,
    seed: int = 0,
) -> Suspicion:
    """Split each class into two clusters and suspect the smaller one where both lie far apart.

    Every class has two clusters if one looks for them, so they are looked for in one half of the class and judged on
    the other, and the other way round: a gap that is not there the second time was never there.

    Args:
        features: As of `spectral_signatures`.
        y: `(n,)` labels as trained with.
        components: Principal components in which the classes are clustered.
        smaller_share: The smaller cluster must be at most this share of its class.
        separation: And the distance of the clusters at least this many of their standard deviations, in both halves.
        seed: Of the halves.

    Returns:
        Scores are positions on the line through the two centres: 0.5 at that of the smaller cluster, -0.5 at the other;
        -1 in classes of fewer than eight samples, which are not judged.

    Reference:
        Chen et al. 2018, arXiv:1811.03728; the separation is that of Ashman, Bird, Zepf 1994, doi:10.1086/117248.
    """
    values, labels = _check_arguments(features, y)
    scores, suspects = np.full(len(values), -1.0), np.zeros(len(values), np.bool_)
    generator = np.random.default_rng(seed)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        if len(rows) < _FEWEST:
            continue
        halves = rows[::2], rows[1::2]
        apart = []
        for sought, judged in (halves, halves[::-1]):
            scores[judged] = _second_cluster(values[sought], components)(values[judged])
            apart.append(_separation(scores[judged]))
        smaller = scores[rows] > 0
        if min(apart) >= separation and smaller.mean() <= smaller_share:
            suspects[rows[smaller]] = True
    return Suspicion(scores, suspects)


_FEWEST: Final = 8  # samples of a class, four to look for clusters and four to judge them


def _second_cluster(points: Floats, components: int) -> Callable[[Floats], Floats]:
    """Return a function to positions on the line through the centres of the two clusters that are farthest apart."""
    mean = points.mean(axis=0)
    basis = np.linalg.svd(points - mean, full_matrices=False)[2][:components].T
    reduced = (points - mean) @ basis
    best, middle, line = -1.0, np.zeros(basis.shape[1]), np.zeros(basis.shape[1])
    for axis in range(basis.shape[1]):
        second = _two_means(reduced, axis)
        if second.all() or not second.any():
            continue
        if 2 * second.sum() > len(second):
            second = ~second
        centres = reduced[~second].mean(axis=0), reduced[second].mean(axis=0)
        way = centres[1] - centres[0]
        positions = (reduced - (centres[0] + centres[1]) / 2) @ way / max(float(way @ way), 1e-300)
        if (found := _separation(positions)) > best:
            best, middle, line = found, (centres[0] + centres[1]) / 2, way / max(float(way @ way), 1e-300)
    return lambda others: np.asarray(((others - mean) @ basis - middle) @ line, np.float64)


def _separation(positions: Floats) -> float:
    """Return the distance of the positions above 0 from the others, in their root mean square deviation."""
    second = positions > 0
    if min(second.sum(), (~second).sum()) < 2:
        return 0.0
    spread = (positions[second].var(ddof=1) + positions[~second].var(ddof=1)) / 2
    return float((positions[second].mean() - positions[~second].mean()) / np.sqrt(max(spread, 1e-300)))


def _check_arguments(features: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    values, labels = np.asarray(features, np.float64), np.asarray(y)
    if values.ndim < 2 or len(values) != len(labels) or not len(labels) or not np.isfinite(values).all():
        raise InvalidInput(f"features expect finite rows, one a label, got {values.shape} and {labels.shape}")
    return values.reshape(len(values), -1), labels


def _two_means(points: Floats, axis: int) -> NDArray[np.bool_]:
    """Split the points in two by Lloyd's algorithm, from the two ends of that axis."""
    centres = points[[points[:, axis].argmin(), points[:, axis].argmax()]]
    second = np.zeros(len(points), np.bool_)
    for _ in range(100):
        distances = ((points[:, None] - centres) ** 2).sum(axis=2)
        now: NDArray[np.bool_] = distances[:, 1] < distances[:, 0]
        if (now == second).all() or now.all() or not now.any():
            return now
        second = now
        centres = np.stack([points[~second].mean(axis=0), points[second].mean(axis=0)])
    return second


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
