"""Explanations by the gradient of the score at the input: as it is, integrated along a line, or averaged over noise."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .contract import Floats, Gradient, gradients

__all__ = ["integrated_gradients", "plain_gradient", "smooth_gradient"]


def plain_gradient(gradient: Gradient, x: NDArray[Any]) -> Floats:
    """The gradient of the score at `x`, of its shape.

    Reference:
        Simonyan et al. 2014, arXiv:1312.6034, section 3.
    """
    found: Floats = gradients(gradient, np.asarray(x, np.float64)[None])[0]
    return found


def integrated_gradients(gradient: Gradient, x: NDArray[Any], *, baseline: ArrayLike = 0.0, points: int = 32) -> Floats:
    """What each element adds to the score on the straight way from the baseline to `x`, of its shape.

    The elements sum to the difference of the two scores, exactly where the gradient is a polynomial of degree below
    `2 * points` along the way, for the integral is Gauss's.

    Args:
        baseline: An input that says nothing, broadcast to the shape of `x`.
        points: At which the gradient is taken.

    Reference:
        Sundararajan et al. 2017, arXiv:1703.01365, eq. 1.
    """
    nodes, shares = np.polynomial.legendre.leggauss(points)
    end = np.asarray(x, np.float64)
    start = np.broadcast_to(np.asarray(baseline, np.float64), end.shape)
    places = (nodes + 1.0) / 2.0
    way = start + places.reshape(-1, *(1,) * end.ndim) * (end - start)
    found: Floats = (end - start) * np.tensordot(shares / 2.0, gradients(gradient, way), axes=1)
    return found


def smooth_gradient(
    gradient: Gradient, x: NDArray[Any], *, noise: float = 0.15, samples: int = 50, seed: int = 0
) -> Floats:
    """The mean gradient around `x`, of its shape.

    Args:
        noise: Standard deviation as a share of the range of `x`; the paper finds 0.1 to 0.2 to look best.

    Reference:
        Smilkov et al. 2017, arXiv:1706.03825, section 3.
    """
    at = np.asarray(x, np.float64)
    spread = noise * float(at.max() - at.min())
    around = at + spread * np.random.default_rng(seed).standard_normal((samples, *at.shape))
    found: Floats = gradients(gradient, around).mean(axis=0)
    return found
