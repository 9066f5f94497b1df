"""Local intrinsic dimension: around an adversarial input the data seem to have more dimensions."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Images
from ..arrays.statistics import pairwise_distances
from ..errors import InvalidInput
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
        """`(n,)`, above 0; an input that is itself a reference is not its own neighbour."""
        distances = pairwise_distances(flat_features(self.features, x), self.reference)
        distances[distances < 1e-12] = np.inf
        nearest = np.sort(distances, axis=1)[:, : self.neighbours]
        if not np.isfinite(nearest).all():
            raise InvalidInput("neighbours expects fewer than the references that differ from each input")
        logs = np.log(nearest / nearest[:, -1:]).mean(axis=1)
        return np.asarray(-1 / np.minimum(logs, -1e-12), np.float64)
