"""Normalization of activations: over features of a sample, or over a batch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import batch_norm, batch_norm_inference, layer_norm, rms_norm
from ..tensor import Array, Parameter, Tensor
from .cell import Cell
from .parameters import positive


class LayerNorm(Cell):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, mean and variance over the last axis.

    Args:
        normalized_shape: Length of the last axis (a tuple of one length, as MindSpore writes it, will do).
        epsilon: Added to the variance.
        dtype: Of the parameters.

    Shape:
        `(..., features) -> (..., features)`

    Reference:
        Ba et al. 2016, arXiv:1607.06450.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-5, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        self.features = _last_axis(self, normalized_shape)
        self.epsilon = float(epsilon)
        self.weight = Parameter(np.ones(self.features, dtype))
        self.bias = Parameter(np.zeros(self.features, dtype))

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        _check_features(self, x, self.features)
        y: Tensor = layer_norm(x, self.weight, self.bias, self.epsilon)
        return y

    def describe(self) -> str:
        """The number of features."""
        return str(self.features)


class RMSNorm(Cell):
    """`x / sqrt(mean(x**2) + epsilon) * weight`, the mean over the last axis.

    Args:
        normalized_shape: Length of the last axis (a tuple of one length will do).
        epsilon: Added to the mean square.
        dtype: Of the parameter.

    Shape:
        `(..., features) -> (..., features)`

    Reference:
        Zhang and Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-6, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        self.features = _last_axis(self, normalized_shape)
        self.epsilon = float(epsilon)
        self.weight = Parameter(np.ones(self.features, dtype))

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        _check_features(self, x, self.features)
        y: Tensor = rms_norm(x, self.weight, self.epsilon)
        return y

    def describe(self) -> str:
        """The number of features."""
        return str(self.features)


def _last_axis(cell: Cell, normalized_shape: int | Sequence[int]) -> int:
    lengths = (normalized_shape,) if isinstance(normalized_shape, int | np.integer) else tuple(normalized_shape)
    if len(lengths) != 1:
        raise ShapeError(
            f"{type(cell).__name__} normalizes the last axis only and expects one length, got {lengths}; "
            f"flatten the axes before it"
        )
    positive(cell, normalized_shape=lengths[0])
    return int(lengths[0])


def _check_features(cell: Cell, x: Tensor, features: int) -> None:
    if x.ndim == 0 or x.shape[-1] != features:
        raise ShapeError(
            f"{type(cell).__name__} expects input (..., {features}), got {x.shape}; its last axis must fit"
        )


class BatchNorm2d(Cell):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, by channel over batch and image.

    In training, mean and variance are the batch's own and the running ones follow them; in evaluation they are the
    running ones. `running_mean` and `running_var` are parameters without gradient, so checkpoints keep them.

    Args:
        num_features: Channels.
        epsilon: Added to the variance.
        momentum: Share of the running values that stays in each training call (MindSpore's 0.9 is PyTorch's 0.1).
        dtype: Of the parameters.

    Shape:
        `(batch, num_features, height, width)`, and the same.

    Reference:
        Ioffe and Szegedy 2015, arXiv:1502.03167.
    """

    def __init__(
        self, num_features: int, epsilon: float = 1e-5, momentum: float = 0.9, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__()
        positive(self, num_features=num_features)
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"BatchNorm2d expects momentum in [0, 1], got {momentum}")
        self.num_features, self.epsilon, self.momentum = num_features, float(epsilon), float(momentum)
        self.weight = Parameter(np.ones(num_features, dtype))
        self.bias = Parameter(np.zeros(num_features, dtype))
        self.running_mean = Parameter(np.zeros(num_features, dtype), requires_grad=False)
        self.running_var = Parameter(np.ones(num_features, dtype), requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        if x.ndim != 4 or x.shape[1] != self.num_features:
            raise ShapeError(f"BatchNorm2d expects input (batch, {self.num_features}, height, width), got {x.shape}")
        if not self.training:
            return batch_norm_inference(x, self.weight, self.bias, self.running_mean, self.running_var, self.epsilon)
        count = x.size // self.num_features
        if count < 2:
            raise ShapeError(f"BatchNorm2d expects more than one value per channel in training, got {x.shape}")
        y, mean, variance = batch_norm(x, self.weight, self.bias, self.epsilon)
        self._follow(mean.numpy(), variance.numpy() * (count / (count - 1)))
        return y

    def _follow(self, mean: Array, variance: Array) -> None:
        for running, seen in ((self.running_mean, mean), (self.running_var, variance)):
            running.set_data((self.momentum * running.numpy() + (1.0 - self.momentum) * seen).astype(running.dtype))

    def describe(self) -> str:
        """The number of channels."""
        return str(self.num_features)
