"""Normalization over groups of channels, single channels, neighbouring channels, and vectors to unit length."""

from math import prod

from ..errors import ShapeError
from ..shape import Axes, Shape
from ..tensor import Tensor, method
from .arithmetic import divide, maximum, multiply, square, subtract
from .create import full
from .indexing import narrow
from .math import power
from .norm import layer_norm
from .operands import as_real
from .padding import pad
from .reduce import mean
from .statistics import safe_sqrt, vector_norm


def _by_channel(x: Tensor, gamma: Tensor | None, beta: Tensor | None) -> Tensor:
    """`gamma x + beta`, one of each for every channel (axis 1)."""
    shape: Shape = (1, -1, *(1,) * (x.ndim - 2))
    for vector in (gamma, beta):
        if vector is not None and vector.shape != x.shape[1:2]:
            raise ShapeError(f"normalization of {x.shape} expects one weight a channel (axis 1), got {vector.shape}")
    x = x if gamma is None else multiply(x, gamma.reshape(shape))
    return x if beta is None else x + beta.reshape(shape)


@method
def group_norm(
    x: Tensor, groups: int, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> Tensor:
    """Each group of channels normalized to mean 0 and variance 1, for each example.

    Args:
        x: `(batch, channels, ...)`.
        groups: A divisor of the number of channels.
        gamma: `(channels)`.
        beta: `(channels)`.
        epsilon: Added to the variance.

    Reference:
        Wu and He 2018, arXiv:1803.08494.
    """
    x = as_real(x, "group_norm")
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"group_norm expects (batch, channels, ...), channels in multiples of {groups}, got {x.shape}")
    rows = x.reshape(x.shape[0] * groups, prod(x.shape[1:]) // groups)
    ones, zeros = full(rows.shape[1:], 1, x.dtype), full(rows.shape[1:], 0, x.dtype)
    return _by_channel(layer_norm(rows, ones, zeros, epsilon).reshape(x.shape), gamma, beta)


@method
def instance_norm(x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each example `(batch, channels, ...)` normalized to mean 0 and variance 1.

    Reference:
        Ulyanov et al. 2016, arXiv:1607.08022.
    """
    return group_norm(x, x.shape[1], gamma, beta, epsilon)


@method
def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """`x / (bias + alpha / size * sum of squares of neighbouring channels) ** beta`, for `(batch, channels, ...)`.

    The window begins `(size - 1) // 2` channels before the channel, as in ONNX.

    Reference:
        Krizhevsky et al. 2012, section 3.3.
    """
    x = as_real(x, "local_response_norm")
    if x.ndim < 2 or size < 1:
        raise ShapeError(f"local_response_norm expects (batch, channels, ...) and a size of 1 or more, got {x.shape}")
    before = (size - 1) // 2
    wide = pad(square(x), [(before, size - 1 - before) if axis == 1 else (0, 0) for axis in range(x.ndim)])
    total = narrow(wide, 1, 0, x.shape[1])
    for start in range(1, size):
        total = total + narrow(wide, 1, start, start + x.shape[1])
    return divide(x, power(multiply(total, alpha / size) + bias, beta))


@method
def normalize(x: Tensor, order: float = 2.0, axis: Axes = 1, epsilon: float = 1e-12) -> Tensor:
    """Vectors along `axis` divided by their norm, or by `epsilon` where that is larger."""
    return divide(x, maximum(vector_norm(x, order, axis, keepdims=True), epsilon))


@method
def mean_variance_norm(x: Tensor, axis: Axes = (0, 2, 3), epsilon: float = 1e-9) -> Tensor:
    """`(x - mean) / (deviation + epsilon)` over `axis`: ONNX's MeanVarianceNormalization."""
    x = as_real(x, "mean_variance_norm")
    centred = subtract(x, mean(x, axis, keepdims=True))
    return divide(centred, safe_sqrt(mean(square(centred), axis, keepdims=True)) + epsilon)
