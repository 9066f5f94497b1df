"""Grad-CAM: where the channels of a layer that speak for the score are active."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contract import Floats
from .resize import resize

__all__ = ["grad_cam"]


def grad_cam(activation: NDArray[Any], gradient: NDArray[Any], space: tuple[int, int]) -> Floats:
    """Evidence for the score at every place of the input, never negative.

    Args:
        activation: `(channels, height, width)` output of a convolution for one input.
        gradient: The same shape: gradient of the score with respect to it.
        space: Height and width of the input.

    Returns:
        `space`, interpolated between the places of the layer.

    Raises:
        ValueError: The two do not have one shape of three axes.

    Reference:
        Selvaraju et al. 2017, arXiv:1610.02391, eq. 1 and 2.
    """
    seen, slope = np.asarray(activation, np.float64), np.asarray(gradient, np.float64)
    if seen.ndim != 3 or seen.shape != slope.shape:
        raise ValueError(
            f"activation and gradient expect one shape (channels, height, width), got {seen.shape} and {slope.shape}"
        )
    weights = slope.mean(axis=(1, 2))
    return resize(np.maximum(np.tensordot(weights, seen, axes=1), 0.0), space)
