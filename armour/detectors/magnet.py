"""MagNet: adversarial inputs lie off the manifold that an autoencoder of clean inputs has learned."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Images
from ..arrays.statistics import jensen_shannon
from ..errors import InvalidInput
from ..model import Model
from ..model.confidence import probabilities

Autoencoder = Callable[[Images], Images]


@dataclass(frozen=True, slots=True)
class ReconstructionError:
    """The mean of |x - autoencoder(x)|^p.

    Reference:
        Meng, Chen 2017, arXiv:1705.09064, section 4.2.1.
    """

    autoencoder: Autoencoder
    p: int = 2

    def scores(self, x: Images) -> Floats:
        """`(n,)`, 0 or more."""
        gaps = np.abs(np.asarray(x, np.float64) - self.autoencoder(x)) ** self.p
        return np.asarray(gaps.reshape(len(x), -1).mean(axis=1), np.float64)


@dataclass(frozen=True, slots=True)
class PredictionDivergence:
    """The Jensen-Shannon divergence of the predictions for x and for autoencoder(x), logits over a temperature.

    Reference:
        Meng, Chen 2017, arXiv:1705.09064, section 4.2.2.
    """

    model: Model
    autoencoder: Autoencoder
    temperature: float = 10.0

    def scores(self, x: Images) -> Floats:
        """`(n,)` from 0 to log 2."""
        p, q = (self._softened(values) for values in (x, np.asarray(self.autoencoder(x), x.dtype)))
        return jensen_shannon(p, q)

    def _softened(self, x: Images) -> Floats:
        powers = np.maximum(probabilities(self.model, x), 1e-300) ** (1 / self.temperature)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalComponents:
    """The linear autoencoder: inputs projected on the directions in which clean ones vary most.

    Args:
        mean: `(d,)`.
        directions: `(components, d)`, orthonormal.
    """

    mean: Floats
    directions: Floats

    def __call__(self, x: Images) -> Images:
        """The projected inputs, shape and dtype kept."""
        centred = x.reshape(len(x), -1) - self.mean
        return np.asarray((centred @ self.directions.T @ self.directions + self.mean).reshape(x.shape), x.dtype)


def fit_principal_components(clean: Images, components: int) -> PrincipalComponents:
    """Fitted on clean inputs `(n, ...)`; as many components as min(n, d) at most."""
    flat = np.asarray(clean, np.float64).reshape(len(clean), -1)
    if not 1 <= components <= min(flat.shape):
        raise InvalidInput(f"components expects 1 to {min(flat.shape)}, got {components}")
    mean = flat.mean(axis=0)
    return PrincipalComponents(mean, np.linalg.svd(flat - mean, full_matrices=False)[2][:components])
