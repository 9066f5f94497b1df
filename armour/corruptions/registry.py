"""The table of natural transforms: what cameras, weather and storage do to an image, in five severities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...storage import nearest
from ..errors import InvalidInput, UnknownAttack

Images: TypeAlias = NDArray[np.float64]
Transform: TypeAlias = Callable[[Images, float, np.random.Generator], Images]

SEVERITIES: Final[range] = range(1, 6)


@dataclass(frozen=True, slots=True)
class Corruption:
    """One transform.

    Args:
        transform: Of images `(n, channels, height, width)` in [0, 1], a strength and a generator, to such images; the
            result may leave [0, 1].
        strengths: Of the five severities.
    """

    name: str
    transform: Transform
    strengths: tuple[float, float, float, float, float]


CORRUPTIONS: Final[dict[str, Corruption]] = {}


def corruption(name: str, *strengths: float) -> Callable[[Transform], Transform]:
    """A decorator that enters the transform into `CORRUPTIONS` with its five strengths."""

    def enter(transform: Transform) -> Transform:
        if name in CORRUPTIONS:
            raise ValueError(f"corruption {name!r} is registered already")
        first, second, third, fourth, fifth = strengths
        CORRUPTIONS[name] = Corruption(name, transform, (first, second, third, fourth, fifth))
        return transform

    return enter


def corrupt(x: NDArray[Any], name: str, severity: int = 3, *, seed: int = 0) -> NDArray[Any]:
    """Images `(n, ..., height, width)` within [0, 1], corrupted, clipped to [0, 1], of the same dtype.

    Raises:
        UnknownAttack: There is no corruption of that name.
        InvalidInput: No images, values outside [0, 1], or a severity that is not 1 to 5.

    Reference:
        Hendrycks, Dietterich 2019, arXiv:1903.12261; the strengths suit small images and are our choice.
    """
    if name not in CORRUPTIONS:
        raise UnknownAttack(f"no corruption {name!r}; there are {', '.join(CORRUPTIONS)}{nearest(name, CORRUPTIONS)}")
    if severity not in SEVERITIES:
        raise InvalidInput(f"severity expects 1 to 5, got {severity!r}")
    images = np.asarray(x)
    if images.ndim < 3 or not images.size or images.dtype.kind != "f":
        raise InvalidInput(f"x expects floating images (n, ..., height, width), got {images.dtype} {images.shape}")
    if not (images.min() >= 0 and images.max() <= 1):
        raise InvalidInput(f"x expects values within [0, 1], got {images.min():g} to {images.max():g}")
    entry = CORRUPTIONS[name]
    inner = images.astype(np.float64).reshape(len(images), -1, *images.shape[-2:])
    found = entry.transform(inner, entry.strengths[severity - 1], np.random.default_rng(seed))
    return np.clip(found, 0.0, 1.0).reshape(images.shape).astype(images.dtype)
