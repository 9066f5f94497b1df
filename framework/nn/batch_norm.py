"""Normalization over a batch, channel by channel, for features, sequences, images and volumes."""

from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..context import is_recomputing
from ..errors import ShapeError
from ..ops import batch_norm, batch_norm_inference
from ..tensor import Parameter, Tensor
from .cell import Cell
from .parameters import positive


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
        """The output, of the shape of the input."""
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
        """The number of channels."""
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
