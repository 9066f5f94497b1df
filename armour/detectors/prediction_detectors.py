"""Detectors that ask whether the prediction, or the input itself, changes under squeezing, noise or an autoencoder."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from ..array_api import Floats, Images
from ..errors import InvalidInput
from ..model import WrappedModel
from ..model.classifier import model_logits, probabilities
from ..row_statistics import jensen_shannon

Squeezer = Callable[[Images], Images]


@dataclass(frozen=True, slots=True)
class BitDepth:
    """Inputs of the unit box rounded to that many bits, 1 to 16."""

    bits: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 16:
            raise InvalidInput(f"bits expects 1 to 16, got {self.bits}")

    def __call__(self, x: Images) -> Images:
        """Return the rounded inputs; the dtype stays."""
        levels = 2**self.bits - 1
        return np.asarray(np.round(x * levels) / levels, x.dtype)


@dataclass(frozen=True, slots=True)
class MedianSmoothing:
    """Images whose last two axes went through a median filter of that odd or even size."""

    size: int = 3

    def __post_init__(self) -> None:
        if self.size < 2:
            raise InvalidInput(f"size expects 2 or more, got {self.size}")

    def __call__(self, x: Images) -> Images:
        """Return the smoothed images."""
        if x.ndim < 3:
            raise InvalidInput(f"median smoothing expects images (n, ..., height, width), got shape {x.shape}")
        window = (1,) * (x.ndim - 2) + (self.size, self.size)
        filtered = import_module("scipy.ndimage").median_filter(x, size=window, mode="reflect")
        return np.asarray(filtered, x.dtype)


@dataclass(frozen=True, slots=True)
class FeatureSqueezing:
    """The largest L1 distance between the probabilities of an input and of its squeezed forms.

    Args:
        model: Wrapped.
        squeezers: What removes detail.

    Reference:
        Xu, Evans, Qi 2018, arXiv:1704.01155, section IV.
    """

    model: WrappedModel
    squeezers: tuple[Squeezer, ...] = (BitDepth(4), MedianSmoothing(2))

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` distances from 0 to 2."""
        clean = probabilities(self.model, x)
        distances = [np.abs(clean - probabilities(self.model, squeeze(x))).sum(axis=1) for squeeze in self.squeezers]
        return np.asarray(np.max(distances, axis=0), np.float64)


def spatial_smoothing(model: WrappedModel, size: int = 3) -> FeatureSqueezing:
    """Return the detector that compares an image with its median-filtered form alone."""
    return FeatureSqueezing(model, (MedianSmoothing(size),))


@dataclass(frozen=True, slots=True)
class RegionBased:
    """The share of points drawn from the hypercube around an input that get another class than the input.

    Args:
        model: Wrapped; points are clipped to its bounds.
        radius: Half the edge of the hypercube.
        points: Drawn for each input.
        seed: Of the draw.

    Reference:
        Cao, Gong 2017, arXiv:1709.05583, section 4.
    """

    model: WrappedModel
    radius: float = 0.3
    points: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.radius > 0 or self.points < 1:
            raise InvalidInput(f"radius expects above 0, points 1 or more, got {self.radius} and {self.points}")

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` shares from 0 to 1."""
        own = model_logits(self.model, x).argmax(axis=1)
        other = np.zeros(len(x))
        generator = np.random.default_rng(self.seed)
        for _ in range(self.points):
            around = x + generator.uniform(-self.radius, self.radius, x.shape)
            moved = np.clip(around, *self.model.bounds).astype(x.dtype)
            other += model_logits(self.model, moved).argmax(axis=1) != own
        return other / self.points


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
        """Return `(n,)` errors, 0 or more."""
        gaps = np.abs(np.asarray(x, np.float64) - self.autoencoder(x)) ** self.p
        return np.asarray(gaps.reshape(len(x), -1).mean(axis=1), np.float64)


@dataclass(frozen=True, slots=True)
class PredictionDivergence:
    """The Jensen-Shannon divergence of the predictions for x and for autoencoder(x), logits over a temperature.

    Reference:
        Meng, Chen 2017, arXiv:1705.09064, section 4.2.2.
    """

    model: WrappedModel
    autoencoder: Autoencoder
    temperature: float = 10.0

    def scores(self, x: Images) -> Floats:
        """Return `(n,)` divergences from 0 to log 2."""
        p, q = (self._soften(values) for values in (x, np.asarray(self.autoencoder(x), x.dtype)))
        return jensen_shannon(p, q)

    def _soften(self, x: Images) -> Floats:
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
        """Return the projected inputs; shape and dtype stay."""
        centred = x.reshape(len(x), -1) - self.mean
        return np.asarray((centred @ self.directions.T @ self.directions + self.mean).reshape(x.shape), x.dtype)


def fit_principal_components(clean: Images, components: int) -> PrincipalComponents:
    """Fit to clean inputs `(n, ...)`; at most min(n, d) components."""
    flat = np.asarray(clean, np.float64).reshape(len(clean), -1)
    if not 1 <= components <= min(flat.shape):
        raise InvalidInput(f"components expects 1 to {min(flat.shape)}, got {components}")
    mean = flat.mean(axis=0)
    return PrincipalComponents(mean, np.linalg.svd(flat - mean, full_matrices=False)[2][:components])
