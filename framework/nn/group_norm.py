"""Normalization within a sample, over groups of channels or over single ones."""

from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import batch_norm, ones, zeros
from ..tensor import Parameter, Tensor
from .cell import Cell
from .parameters import positive


class GroupNorm(Cell):
    """`(x - mean) / sqrt(variance + eps) * weight + bias`, moments over the channels of a group and all places.

    Args:
        num_groups: Into how many groups the channels fall; divides `num_channels`.
        num_channels: Channels.
        eps: Added to the variance.
        affine: Whether there are a weight and a bias for each channel.
        dtype: Of the parameters.

    Shape:
        `(batch, num_channels, ...)`, and the same.

    Reference:
        Wu and He 2018, arXiv:1803.08494.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm expects channels divisible by groups, got {num_channels} and {num_groups}")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, float(eps)
        self.weight: Parameter | None = Parameter(np.ones(num_channels, dtype)) if affine else None
        self.bias: Parameter | None = Parameter(np.zeros(num_channels, dtype)) if affine else None

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(f"GroupNorm expects input (batch, {self.num_channels}, ...), got {x.shape}")
        return _normalized(x, self.num_groups, self.eps, self.weight, self.bias)

    def describe(self) -> str:
        """Groups and channels."""
        return f"{self.num_groups}, {self.num_channels}"


class _InstanceNorm(Cell):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, moments of each channel of each sample.

    Args:
        num_features: Channels.
        epsilon: Added to the variance.
        affine: Whether there are a weight and a bias for each channel.
        dtype: Of the parameters.

    Reference:
        Ulyanov et al. 2016, arXiv:1607.08022.
    """

    axes: ClassVar[tuple[str, ...]]

    def __init__(
        self, num_features: int, epsilon: float = 1e-5, affine: bool = True, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        positive(self, num_features=num_features)
        self.num_features, self.epsilon = num_features, float(epsilon)
        self.weight: Parameter | None = Parameter(np.ones(num_features, dtype)) if affine else None
        self.bias: Parameter | None = Parameter(np.zeros(num_features, dtype)) if affine else None

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        if x.ndim != 2 + len(self.axes) or x.shape[1] != self.num_features:
            axes = ", ".join(("batch", str(self.num_features), *self.axes))
            raise ShapeError(f"{type(self).__name__} expects input ({axes}), got {x.shape}")
        return _normalized(x, self.num_features, self.epsilon, self.weight, self.bias)

    def describe(self) -> str:
        """The number of channels."""
        return str(self.num_features)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of sequences: `(batch, num_features, length)`, and the same."""

    axes = ("length",)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of images: `(batch, num_features, height, width)`, and the same."""

    axes = ("height", "width")


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of volumes: `(batch, num_features, depth, height, width)`, and the same."""

    axes = ("depth", "height", "width")


def _normalized(x: Tensor, groups: int, epsilon: float, weight: Parameter | None, bias: Parameter | None) -> Tensor:
    """Every group of every sample as a channel of one batch of one, which the fused kernels normalize."""
    rows = x.shape[0] * groups
    y = batch_norm(x.reshape(1, rows, -1), ones((rows,), x.dtype), zeros((rows,), x.dtype), epsilon)[0].reshape(x.shape)
    if weight is None or bias is None:
        return y
    channels = (1, x.shape[1], *(1,) * (x.ndim - 2))
    return y * weight.reshape(channels) + bias.reshape(channels)
