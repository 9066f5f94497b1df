"""Corruptions of place: blur and movement, by scipy.ndimage."""

from importlib import import_module
from typing import Any

import numpy as np

from .registry import Images, corruption


@corruption("gaussian_blur", 0.4, 0.6, 0.9, 1.3, 1.8)
def _gaussian_blur(x: Images, strength: float, _: np.random.Generator) -> Images:
    """A normal window of that deviation in pixels."""
    return np.asarray(_ndimage().gaussian_filter(x, sigma=(0, 0, strength, strength), mode="nearest"))


@corruption("motion_blur", 2, 3, 4, 5, 7)
def _motion_blur(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """The mean along a line of that many pixels, horizontal or vertical by chance."""
    across, down = (_ndimage().uniform_filter1d(x, int(strength), axis=axis, mode="nearest") for axis in (3, 2))
    blurred: Images = np.where(generator.random((len(x), 1, 1, 1)) < 0.5, across, down)
    return blurred


@corruption("rotation", 5, 10, 15, 22, 30)
def _rotation(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """That many degrees, to either side."""
    angles = np.deg2rad(strength) * generator.choice([-1.0, 1.0], len(x))
    turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    return _moved(x, turns)


@corruption("scaling", 0.95, 0.9, 0.8, 0.7, 0.6)
def _scaling(x: Images, strength: float, _: np.random.Generator) -> Images:
    """Shrunk around the middle."""
    return _moved(x, [np.eye(2) / strength] * len(x))


@corruption("shear", 0.05, 0.1, 0.15, 0.25, 0.35)
def _shear(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """Rows shifted in proportion to their distance from the middle, to either side."""
    signs = generator.choice([-1.0, 1.0], len(x))
    return _moved(x, [np.array([[1.0, 0.0], [sign * strength, 1.0]]) for sign in signs])


@corruption("translation", 0.04, 0.08, 0.12, 0.18, 0.25)
def _translation(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """Shifted by that share of both sides, in a random direction each."""
    steps = strength * np.array(x.shape[-2:]) * generator.choice([-1.0, 1.0], (len(x), 2))
    return _moved(x, [np.eye(2)] * len(x), steps)


def _moved(x: Images, matrices: list[Any], steps: Any = None) -> Images:
    """Every image read at `matrix @ (place - middle) + middle + step`, linear between pixels, edges repeated."""
    middle = (np.array(x.shape[-2:]) - 1) / 2
    found = np.empty_like(x)
    for row, matrix in enumerate(matrices):
        offset = middle - matrix @ middle + (0 if steps is None else steps[row])
        for channel, plane in enumerate(x[row]):
            found[row, channel] = _ndimage().affine_transform(plane, matrix, offset, order=1, mode="nearest")
    return found


def _ndimage() -> Any:
    """scipy.ndimage, a dependency of the extras alone."""
    try:
        return import_module("scipy.ndimage")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "blur and movement of images expect SciPy, which is not installed; pip install mindscope[privacy]"
        ) from error
