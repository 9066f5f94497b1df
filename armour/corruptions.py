"""Natural transforms of images in five severities: what cameras, weather, movement and storage do to them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..storage import nearest
from .array_api import Images
from .errors import InvalidInput, UnknownAttack

__all__ = ["CORRUPTIONS", "SEVERITIES", "Corruption", "corrupt"]

FloatImages: TypeAlias = NDArray[np.float64]
Transform: TypeAlias = Callable[[FloatImages, float, np.random.Generator], FloatImages]

SEVERITIES: Final[range] = range(1, 6)


@dataclass(frozen=True, slots=True)
class Corruption:
    """A corruption with its five strengths.

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
    """Return a decorator that enters the transform into `CORRUPTIONS` with its five strengths."""

    def enter(transform: Transform) -> Transform:
        if name in CORRUPTIONS:
            raise ValueError(f"corruption {name!r} is registered already")
        first, second, third, fourth, fifth = strengths
        CORRUPTIONS[name] = Corruption(name, transform, (first, second, third, fourth, fifth))
        return transform

    return enter


def corrupt(
    x: Images,
    name: str,
    severity: int = 3,
    *,
    seed: int = 0,
    bounds: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
) -> Images:
    """Return the images `(n, ..., height, width)`, corrupted, clipped to the bounds, in the same dtype.

    Args:
        x: Images within the bounds.
        name: Of `CORRUPTIONS`.
        severity: 1 to 5.
        bounds: Black and white: numbers, or arrays that broadcast against `x`, as of standardised channels.

    Raises:
        UnknownAttack: There is no corruption of that name.
        InvalidInput: No images, values outside the bounds, or a severity that is not 1 to 5.

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
    low, high = (np.asarray(end, images.dtype) for end in bounds)
    if not ((images >= low) & (images <= high)).all():
        raise InvalidInput(
            f"x expects values within [{low.min():g}, {high.max():g}], got {images.min():g} to {images.max():g}; name "
            f"what is black and white with bounds="
        )
    width = high.astype(np.float64) - low
    entry = CORRUPTIONS[name]
    inner = ((images.astype(np.float64) - low) / width).reshape(len(images), -1, *images.shape[-2:])
    found = entry.transform(inner, entry.strengths[severity - 1], np.random.default_rng(seed))
    outer = np.clip(found, 0.0, 1.0).reshape(images.shape) * width + low
    return np.clip(outer.astype(images.dtype), low, high)


@corruption("gaussian_noise", 0.04, 0.08, 0.12, 0.18, 0.26)
def _gaussian_noise(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Add normal noise of that deviation, as a sensor does in the dark."""
    return x + generator.normal(0.0, strength, x.shape)


@corruption("shot_noise", 250, 100, 50, 25, 12)
def _shot_noise(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Draw photon counts of at most that many."""
    return np.asarray(generator.poisson(x * strength) / strength)


@corruption("impulse_noise", 0.01, 0.03, 0.06, 0.1, 0.2)
def _impulse_noise(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Set that share of pixels to black or white."""
    draw = generator.random(x.shape)
    return np.where(draw < strength / 2, 0.0, np.where(draw < strength, 1.0, x))


@corruption("speckle_noise", 0.1, 0.15, 0.2, 0.3, 0.45)
def _speckle_noise(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Add noise in proportion to the pixel."""
    return x * (1 + generator.normal(0.0, strength, x.shape))


@corruption("brightness", 0.05, 0.1, 0.2, 0.3, 0.4)
def _brightness(x: FloatImages, strength: float, _: np.random.Generator) -> FloatImages:
    """Add that much light everywhere."""
    return x + strength


@corruption("contrast", 0.75, 0.6, 0.45, 0.3, 0.15)
def _contrast(x: FloatImages, strength: float, _: np.random.Generator) -> FloatImages:
    """Multiply differences from the image's mean by the strength."""
    mean = x.mean(axis=(2, 3), keepdims=True)
    return np.asarray(mean + strength * (x - mean))


@corruption("quantization", 32, 16, 8, 4, 3)
def _quantization(x: FloatImages, strength: float, _: np.random.Generator) -> FloatImages:
    """Round pixels to that many levels."""
    return np.asarray(np.round(x * (strength - 1)) / (strength - 1))


@corruption("fog", 0.1, 0.2, 0.3, 0.45, 0.6)
def _fog(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Mix the image with smooth light, a sum of waves of random direction."""
    height, width = x.shape[-2:]
    rows, columns = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    haze = np.zeros((len(x), 1, height, width))
    for octave in (1, 2, 4):
        phase, angle = generator.uniform(0, 2 * np.pi, (2, len(x), 1, 1, 1))
        wave = np.sin(2 * np.pi * octave * (np.cos(angle) * rows + np.sin(angle) * columns) + phase)
        haze += (1 + wave) / (2 * octave)
    return (1 - strength) * x + strength * (0.5 + haze / 3.5)


@corruption("occlusion", 0.1, 0.2, 0.3, 0.4, 0.5)
def _occlusion(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Cover a rectangle of that share of both sides with grey."""
    found = x.copy()
    height, width = (max(1, round(strength * side)) for side in x.shape[-2:])
    tops = generator.integers(0, x.shape[-2] - height + 1, len(x))
    lefts = generator.integers(0, x.shape[-1] - width + 1, len(x))
    for image, top, left in zip(found, tops, lefts, strict=True):
        image[:, top : top + height, left : left + width] = 0.5
    return found


@corruption("gaussian_blur", 0.4, 0.6, 0.9, 1.3, 1.8)
def _gaussian_blur(x: FloatImages, strength: float, _: np.random.Generator) -> FloatImages:
    """Blur with a Gaussian window of that deviation in pixels."""
    return np.asarray(_ndimage().gaussian_filter(x, sigma=(0, 0, strength, strength), mode="nearest"))


@corruption("motion_blur", 2, 3, 4, 5, 7)
def _motion_blur(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Average along a line of that many pixels, horizontal or vertical by chance."""
    across, down = (_ndimage().uniform_filter1d(x, int(strength), axis=axis, mode="nearest") for axis in (3, 2))
    blurred: FloatImages = np.where(generator.random((len(x), 1, 1, 1)) < 0.5, across, down)
    return blurred


@corruption("rotation", 5, 10, 15, 22, 30)
def _rotation(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Rotate by that many degrees, to either side."""
    angles = np.deg2rad(strength) * generator.choice([-1.0, 1.0], len(x))
    turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    return _warp(x, turns)


@corruption("scaling", 0.95, 0.9, 0.8, 0.7, 0.6)
def _scaling(x: FloatImages, strength: float, _: np.random.Generator) -> FloatImages:
    """Shrink the image around its middle."""
    return _warp(x, [np.eye(2) / strength] * len(x))


@corruption("shear", 0.05, 0.1, 0.15, 0.25, 0.35)
def _shear(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Shift rows in proportion to their distance from the middle, to either side."""
    signs = generator.choice([-1.0, 1.0], len(x))
    return _warp(x, [np.array([[1.0, 0.0], [sign * strength, 1.0]]) for sign in signs])


@corruption("translation", 0.04, 0.08, 0.12, 0.18, 0.25)
def _translation(x: FloatImages, strength: float, generator: np.random.Generator) -> FloatImages:
    """Shift by that share of both sides, each in a random direction."""
    steps = strength * np.array(x.shape[-2:]) * generator.choice([-1.0, 1.0], (len(x), 2))
    return _warp(x, [np.eye(2)] * len(x), steps)


def _warp(x: FloatImages, matrices: list[FloatImages], steps: FloatImages | None = None) -> FloatImages:
    """Read every image at `matrix @ (pixel - middle) + middle + step`: linear between pixels, edges repeated."""
    middle = (np.array(x.shape[-2:]) - 1) / 2
    found = np.empty_like(x)
    for row, matrix in enumerate(matrices):
        offset = middle - matrix @ middle + (0 if steps is None else steps[row])
        for channel, plane in enumerate(x[row]):
            found[row, channel] = _ndimage().affine_transform(plane, matrix, offset, order=1, mode="nearest")
    return found


def _ndimage() -> ModuleType:
    """Import scipy.ndimage, which only the extras install."""
    try:
        return import_module("scipy.ndimage")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "blur and movement of images expect SciPy, which is not installed; pip install mindscope[privacy]"
        ) from error
