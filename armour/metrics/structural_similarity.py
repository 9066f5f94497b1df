"""Structural similarity: how much of an image's local structure another keeps."""

from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..arrays.images import as_images
from ..errors import InvalidInput

_DEVIATION: Final = 1.5  # of the window's weights in pixels, and its reach: the paper's section III-C
_REACH: Final = 5
_K1: Final = 0.01
_K2: Final = 0.03
_BELL: Final = np.exp(-(np.arange(-_REACH, _REACH + 1) ** 2) / (2 * _DEVIATION**2))
_WEIGHTS: Final = _BELL / _BELL.sum()
_BATCH: Final = 64  # images whose windows are in memory at once: our choice


def structural_similarity(
    x: NDArray[Any], other: NDArray[Any], bounds: tuple[float, float] = (0.0, 1.0)
) -> NDArray[np.float64]:
    """`(n,)` mean structural similarities, 1 where images are equal and down to -1.

    Means, variances and covariances are weighed by a Gaussian window of 11 x 11 pixels. Windows that would leave the
    picture are left out, unless all would: then pixels are mirrored at the edge.

    Args:
        x: `(n, ...)`; the last two axes are the picture, a flat input is one row of pixels.
        other: The same shape.
        bounds: Smallest and largest value of a pixel.

    Raises:
        InvalidInput: The shapes differ.

    Reference:
        Wang et al. 2004, "Image quality assessment: from error visibility to structural similarity", equation 13.
    """
    if x.shape != other.shape:
        raise InvalidInput(f"images expect one shape, got {x.shape} and {other.shape}")
    parts = [slice(start, start + _BATCH) for start in range(0, len(x), _BATCH)]
    means = [_similarity(x[part], other[part], bounds[1] - bounds[0]) for part in parts]
    return np.concatenate(means) if means else np.zeros(0)


def _similarity(x: NDArray[Any], other: NDArray[Any], width: float) -> NDArray[np.float64]:
    a, b = (as_images(values.astype(np.float64)) for values in (x, other))
    mean_a, mean_b = _weighed(a), _weighed(b)
    variance_a, variance_b = _weighed(a * a) - mean_a**2, _weighed(b * b) - mean_b**2
    covariance = _weighed(a * b) - mean_a * mean_b
    c1, c2 = ((k * width) ** 2 for k in (_K1, _K2))
    luminance = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    structure = (2 * covariance + c2) / (variance_a + variance_b + c2)
    inner = _inner(luminance * structure)
    return np.asarray(inner.reshape(len(x), -1).mean(axis=1), np.float64)


def _weighed(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each pixel's weighed mean, one axis after the other; without SciPy, which is an extra that evaluations spare."""
    for axis in (2, 3):
        margin = [(_REACH, _REACH) if at == axis else (0, 0) for at in range(4)]
        windows = sliding_window_view(np.pad(images, margin, mode="symmetric"), len(_WEIGHTS), axis=axis)
        images = np.asarray(windows @ _WEIGHTS, np.float64)
    return images


def _inner(images: NDArray[np.float64]) -> NDArray[np.float64]:
    if min(images.shape[-2:]) <= 2 * _REACH:
        return images
    return images[..., _REACH:-_REACH, _REACH:-_REACH]
