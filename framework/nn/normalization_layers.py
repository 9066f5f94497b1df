"""Normalization layers: over the last axes, over the batch, over groups of channels."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..context import is_recomputing
from ..errors import ShapeError
from ..ops import ones, zeros
from ..ops.normalization_ops import batch_norm, batch_norm_inference, layer_norm, rms_norm
from ..tensor import Parameter, Tensor
from .cell import Cell
from .parameters import positive


class LayerNorm(Cell):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, mean and variance over the last axes.

    Args:
        normalized_shape: Length of the last axis, or lengths of the last axes.
        epsilon: Added to the variance.
        dtype: Of the parameters.

    Shape:
        `(..., *normalized_shape)`, and the same.

    Reference:
        Ba et al. 2016, arXiv:1607.06450.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-5, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        self.normalized_shape = _lengths(self, normalized_shape)
        self.epsilon = float(epsilon)
        self.weight = Parameter(np.ones(self.normalized_shape, dtype))
        self.bias = Parameter(np.zeros(self.normalized_shape, dtype))

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        _check_axes(self, x, self.normalized_shape)
        if len(self.normalized_shape) == 1:
            return layer_norm(x, self.weight, self.bias, self.epsilon)
        rows = _joined(x, self.normalized_shape)
        return layer_norm(rows, self.weight.reshape(-1), self.bias.reshape(-1), self.epsilon).reshape(x.shape)

    def describe(self) -> str:
        """Return the lengths of the axes."""
        return ", ".join(map(str, self.normalized_shape))


class RMSNorm(Cell):
    """`x / sqrt(mean(x**2) + epsilon) * weight`, the mean over the last axes.

    Args:
        normalized_shape: Length of the last axis, or lengths of the last axes.
        epsilon: Added to the mean square.
        dtype: Of the parameter.

    Shape:
        `(..., *normalized_shape)`, and the same.

    Reference:
        Zhang and Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-6, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        self.normalized_shape = _lengths(self, normalized_shape)
        self.epsilon = float(epsilon)
        self.weight = Parameter(np.ones(self.normalized_shape, dtype))

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        _check_axes(self, x, self.normalized_shape)
        if len(self.normalized_shape) == 1:
            return rms_norm(x, self.weight, self.epsilon)
        rows = _joined(x, self.normalized_shape)
        return rms_norm(rows, self.weight.reshape(-1), self.epsilon).reshape(x.shape)

    def describe(self) -> str:
        """Return the lengths of the axes."""
        return ", ".join(map(str, self.normalized_shape))


def _lengths(cell: Cell, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    lengths = (normalized_shape,) if isinstance(normalized_shape, int | np.integer) else tuple(normalized_shape)
    if not lengths:
        raise ShapeError(f"{type(cell).__name__} expects normalized_shape to have one length or more, got ()")
    positive(cell, normalized_shape=min(lengths))
    return tuple(int(length) for length in lengths)


def _check_axes(cell: Cell, x: Tensor, lengths: tuple[int, ...]) -> None:
    if x.shape[-len(lengths) :] != lengths:
        expected = ", ".join(map(str, lengths))
        raise ShapeError(
            f"{type(cell).__name__} expects input (..., {expected}), got {x.shape}; its last axes must fit"
        )


def _joined(x: Tensor, lengths: tuple[int, ...]) -> Tensor:
    return x.reshape(*x.shape[: x.ndim - len(lengths)], prod(lengths))


class _BatchNorm(Cell):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, by channel over the batch and everything else.

    In training, mean and variance are the batch's own and the running ones follow them; in evaluation they are the
    running ones. `running_mean` and `running_var` are parameters without gradient, so checkpoints keep them.

    Args:
        num_features: Channels.
        epsilon: Added to the variance.
        momentum: Share of the running values that stays in each training call (MindSpore's 0.9 is PyTorch's 0.1).
        dtype: Of the parameters.

    Reference:
        Ioffe and Szegedy 2015, arXiv:1502.03167.
    """

    #: What the input's axes are called, for each number of axes that the layer takes.
    shapes: ClassVar[dict[int, str]]
    _kept_wide: ClassVar[tuple[str, ...]] = ("running_mean", "running_var")

    def __init__(
        self, num_features: int, epsilon: float = 1e-5, momentum: float = 0.9, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        positive(self, num_features=num_features)
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"{type(self).__name__} expects momentum in [0, 1], got {momentum}")
        self.num_features, self.epsilon, self.momentum = num_features, float(epsilon), float(momentum)
        self.weight = Parameter(np.ones(num_features, dtype))
        self.bias = Parameter(np.zeros(num_features, dtype))
        self.running_mean = Parameter(np.zeros(num_features, dtype), requires_grad=False)
        self.running_var = Parameter(np.ones(num_features, dtype), requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        if x.ndim not in self.shapes or x.shape[1] != self.num_features:
            expected = " or ".join(axes.format(self.num_features) for axes in self.shapes.values())
            raise ShapeError(f"{type(self).__name__} expects input {expected}, got {x.shape}")
        if not self.training:
            return batch_norm_inference(x, self.weight, self.bias, self.running_mean, self.running_var, self.epsilon)
        count = x.size // self.num_features
        if count < 2:
            raise ShapeError(
                f"{type(self).__name__} expects more than one value per channel in training, got {x.shape}"
            )
        y, mean, variance = batch_norm(x, self.weight, self.bias, self.epsilon)
        self._follow(self.running_mean, mean)
        self._follow(self.running_var, variance * (count / (count - 1)))
        return y

    def _follow(self, running: Parameter, seen: Tensor) -> None:
        if not is_recomputing():  # the batch was counted when it ran the first time
            running.set_data((running * self.momentum + seen * (1.0 - self.momentum)).astype(running.dtype))

    def describe(self) -> str:
        """Return the number of channels."""
        return str(self.num_features)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of features or sequences.

    Shape:
        `(batch, num_features)` or `(batch, num_features, length)`, and the same.
    """

    shapes: ClassVar[dict[int, str]] = {2: "(batch, {})", 3: "(batch, {}, length)"}


class BatchNorm2d(_BatchNorm):
    """Batch normalization of images.

    Shape:
        `(batch, num_features, height, width)`, and the same.
    """

    shapes: ClassVar[dict[int, str]] = {4: "(batch, {}, height, width)"}


class BatchNorm3d(_BatchNorm):
    """Batch normalization of volumes.

    Shape:
        `(batch, num_features, depth, height, width)`, and the same.
    """

    shapes: ClassVar[dict[int, str]] = {5: "(batch, {}, depth, height, width)"}


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
        """Return the output, of the shape of the input."""
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(f"GroupNorm expects input (batch, {self.num_channels}, ...), got {x.shape}")
        return _normalized(x, self.num_groups, self.eps, self.weight, self.bias)

    def describe(self) -> str:
        """Return groups and channels."""
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
        """Return the output, of the shape of the input."""
        if x.ndim != 2 + len(self.axes) or x.shape[1] != self.num_features:
            axes = ", ".join(("batch", str(self.num_features), *self.axes))
            raise ShapeError(f"{type(self).__name__} expects input ({axes}), got {x.shape}")
        return _normalized(x, self.num_features, self.epsilon, self.weight, self.bias)

    def describe(self) -> str:
        """Return the number of channels."""
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
    """Return every group of every sample as a channel of one batch of one, which the fused kernels normalize."""
    rows = x.shape[0] * groups
    y = batch_norm(x.reshape(1, rows, -1), ones((rows,), x.dtype), zeros((rows,), x.dtype), epsilon)[0].reshape(x.shape)
    if weight is None or bias is None:
        return y
    channels = (1, x.shape[1], *(1,) * (x.ndim - 2))
    return y * weight.reshape(channels) + bias.reshape(channels)
