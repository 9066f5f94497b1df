"""Normalization over rows and over channels: values and gradients while the data is in the cache."""

import numpy as np
from numba import njit

from ..tensor import Array
from .exponential import JIT


@njit(**JIT)
def layer_norm(x: Array, gamma: Array, beta: Array, out: Array, epsilon: float) -> None:
    """Compute `out = (x - mean) / sqrt(var + epsilon) gamma + beta` along rows."""
    rows, width = x.shape
    count = x.dtype.type(width)
    for i in range(rows):
        mean = x.dtype.type(0.0)
        for j in range(width):
            mean += x[i, j]
        mean /= count
        var = x.dtype.type(0.0)
        for j in range(width):
            d = x[i, j] - mean
            var += d * d
        scale = x.dtype.type(1.0 / np.sqrt(var / count + epsilon))
        for j in range(width):
            out[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]


@njit(**JIT)
def layer_norm_gradient(
    g: Array, x: Array, gamma: Array, of_x: Array, of_gamma: Array, of_beta: Array, epsilon: float
) -> None:
    """Compute the gradients of the three arguments; mean and variance are computed again from the cached row."""
    rows, width = x.shape
    count = x.dtype.type(width)
    of_gamma[:] = 0.0
    of_beta[:] = 0.0
    for i in range(rows):
        mean = x.dtype.type(0.0)
        for j in range(width):
            mean += x[i, j]
        mean /= count
        var = x.dtype.type(0.0)
        for j in range(width):
            d = x[i, j] - mean
            var += d * d
        scale = x.dtype.type(1.0 / np.sqrt(var / count + epsilon))
        total = x.dtype.type(0.0)
        along = x.dtype.type(0.0)
        for j in range(width):
            normal = (x[i, j] - mean) * scale
            weighted = g[i, j] * gamma[j]
            total += weighted
            along += weighted * normal
        total /= count
        along /= count
        for j in range(width):
            normal = (x[i, j] - mean) * scale
            of_gamma[j] += g[i, j] * normal
            of_beta[j] += g[i, j]
            of_x[i, j] = scale * (g[i, j] * gamma[j] - total - normal * along)


@njit(**JIT)
def rms_norm(x: Array, gamma: Array, out: Array, epsilon: float) -> None:
    """Compute `out = x / sqrt(mean(x**2) + epsilon) gamma` along rows."""
    rows, width = x.shape
    for i in range(rows):
        square = x.dtype.type(0.0)
        for j in range(width):
            square += x[i, j] * x[i, j]
        scale = x.dtype.type(1.0 / np.sqrt(square / width + epsilon))
        for j in range(width):
            out[i, j] = x[i, j] * scale * gamma[j]


@njit(**JIT)
def rms_norm_gradient(g: Array, x: Array, gamma: Array, of_x: Array, of_gamma: Array, epsilon: float) -> None:
    """Compute the gradients of both arguments."""
    rows, width = x.shape
    of_gamma[:] = 0.0
    for i in range(rows):
        square = x.dtype.type(0.0)
        along = x.dtype.type(0.0)
        for j in range(width):
            square += x[i, j] * x[i, j]
            along += g[i, j] * gamma[j] * x[i, j]
        scale = x.dtype.type(1.0 / np.sqrt(square / width + epsilon))
        pull = along * scale * scale * scale / x.dtype.type(width)
        for j in range(width):
            of_gamma[j] += g[i, j] * x[i, j] * scale
            of_x[i, j] = g[i, j] * gamma[j] * scale - x[i, j] * pull


@njit(**JIT)
def channel_moments(x: Array, mean: Array, var: Array) -> None:
    """Compute mean and population variance of each channel of `x` (batch, channels, length), summed in float64."""
    batch, channels, length = x.shape
    count = batch * length
    for c in range(channels):
        total = 0.0
        for n in range(batch):
            for k in range(length):
                total += x[n, c, k]
        centre = total / count
        spread = 0.0
        for n in range(batch):
            for k in range(length):
                d = x[n, c, k] - centre
                spread += d * d
        mean[c] = centre
        var[c] = spread / count


@njit(**JIT)
def channel_scale(x: Array, scale: Array, shift: Array, out: Array) -> None:
    """Compute `out = x scale + shift`, by channel of `x` (batch, channels, length)."""
    batch, channels, length = x.shape
    for n in range(batch):
        for c in range(channels):
            for k in range(length):
                out[n, c, k] = x[n, c, k] * scale[c] + shift[c]


@njit(**JIT)
def batch_norm_gradient(
    g: Array,
    x: Array,
    gamma: Array,
    mean: Array,
    var: Array,
    of_x: Array,
    of_gamma: Array,
    of_beta: Array,
    epsilon: float,
) -> None:
    """Compute the gradients of the three arguments of a batch normalization with the batch's own moments."""
    batch, channels, length = x.shape
    count = batch * length
    for c in range(channels):
        centre = mean[c]
        scale = x.dtype.type(1.0 / np.sqrt(var[c] + epsilon))
        total = 0.0
        along = 0.0
        for n in range(batch):
            for k in range(length):
                total += g[n, c, k]
                along += g[n, c, k] * (x[n, c, k] - centre) * scale
        of_beta[c] = total
        of_gamma[c] = along
        lift = x.dtype.type(total / count)
        tilt = x.dtype.type(along / count)
        factor = gamma[c] * scale
        for n in range(batch):
            for k in range(length):
                of_x[n, c, k] = factor * (g[n, c, k] - lift - (x[n, c, k] - centre) * scale * tilt)
