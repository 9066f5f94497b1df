"""Corruptions of pixel values: noise, light and storage."""

import numpy as np

from .registry import Images, corruption


@corruption("gaussian_noise", 0.04, 0.08, 0.12, 0.18, 0.26)
def _gaussian_noise(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """Normal noise of that deviation: a sensor in the dark."""
    return x + generator.normal(0.0, strength, x.shape)


@corruption("shot_noise", 250, 100, 50, 25, 12)
def _shot_noise(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """Counts of at most that many photons."""
    return np.asarray(generator.poisson(x * strength) / strength)


@corruption("impulse_noise", 0.01, 0.03, 0.06, 0.1, 0.2)
def _impulse_noise(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """That share of pixels black or white."""
    draw = generator.random(x.shape)
    return np.where(draw < strength / 2, 0.0, np.where(draw < strength, 1.0, x))


@corruption("speckle_noise", 0.1, 0.15, 0.2, 0.3, 0.45)
def _speckle_noise(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """Noise in proportion to the pixel."""
    return x * (1 + generator.normal(0.0, strength, x.shape))


@corruption("brightness", 0.05, 0.1, 0.2, 0.3, 0.4)
def _brightness(x: Images, strength: float, _: np.random.Generator) -> Images:
    """That much light added everywhere."""
    return x + strength


@corruption("contrast", 0.75, 0.6, 0.45, 0.3, 0.15)
def _contrast(x: Images, strength: float, _: np.random.Generator) -> Images:
    """Differences from the image's mean, times the strength."""
    mean = x.mean(axis=(2, 3), keepdims=True)
    return np.asarray(mean + strength * (x - mean))


@corruption("quantization", 32, 16, 8, 4, 3)
def _quantization(x: Images, strength: float, _: np.random.Generator) -> Images:
    """That many levels."""
    return np.asarray(np.round(x * (strength - 1)) / (strength - 1))


@corruption("fog", 0.1, 0.2, 0.3, 0.45, 0.6)
def _fog(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """Mixed with smooth light, a sum of waves of random direction."""
    height, width = x.shape[-2:]
    rows, columns = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    haze = np.zeros((len(x), 1, height, width))
    for octave in (1, 2, 4):
        phase, angle = generator.uniform(0, 2 * np.pi, (2, len(x), 1, 1, 1))
        wave = np.sin(2 * np.pi * octave * (np.cos(angle) * rows + np.sin(angle) * columns) + phase)
        haze += (1 + wave) / (2 * octave)
    return (1 - strength) * x + strength * (0.5 + haze / 3.5)


@corruption("occlusion", 0.1, 0.2, 0.3, 0.4, 0.5)
def _occlusion(x: Images, strength: float, generator: np.random.Generator) -> Images:
    """A grey rectangle of that share of both sides."""
    found = x.copy()
    height, width = (max(1, round(strength * side)) for side in x.shape[-2:])
    tops = generator.integers(0, x.shape[-2] - height + 1, len(x))
    lefts = generator.integers(0, x.shape[-1] - width + 1, len(x))
    for image, top, left in zip(found, tops, lefts, strict=True):
        image[:, top : top + height, left : left + width] = 0.5
    return found
