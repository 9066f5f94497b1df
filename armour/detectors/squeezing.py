"""Feature squeezing and spatial smoothing: does the prediction change when detail that no person needs is removed?"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from ..arrays import Floats, Images
from ..errors import InvalidInput
from ..model import Model
from ..model.confidence import probabilities

Squeezer = Callable[[Images], Images]


@dataclass(frozen=True, slots=True)
class BitDepth:
    """Inputs of the unit box rounded to that many bits, 1 to 16."""

    bits: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 16:
            raise InvalidInput(f"bits expects 1 to 16, got {self.bits}")

    def __call__(self, x: Images) -> Images:
        """The rounded inputs, dtype kept."""
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
        """The smoothed images."""
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

    model: Model
    squeezers: tuple[Squeezer, ...] = (BitDepth(4), MedianSmoothing(2))

    def scores(self, x: Images) -> Floats:
        """`(n,)` from 0 to 2."""
        clean = probabilities(self.model, x)
        distances = [np.abs(clean - probabilities(self.model, squeeze(x))).sum(axis=1) for squeeze in self.squeezers]
        return np.asarray(np.max(distances, axis=0), np.float64)


def spatial_smoothing(model: Model, size: int = 3) -> FeatureSqueezing:
    """The detector that compares an image with its median-filtered form alone."""
    return FeatureSqueezing(model, (MedianSmoothing(size),))
