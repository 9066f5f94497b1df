"""Activations that learn, gate or choose, and the one that does nothing."""

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import glu, prelu, softmax
from ..tensor import Parameter, Tensor
from .cell import Cell
from .parameters import positive


class PReLU(Cell):
    """`x` where it is positive, `weight * x` elsewhere, the weight being learned.

    Args:
        channel: Weights: one for all, or one for each channel (axis 1).
        w: Their first value.
        dtype: Of the parameter.

    Reference:
        He et al. 2015, arXiv:1502.01852, eq. 1.
    """

    def __init__(self, channel: int = 1, w: float = 0.25, *, dtype: DTypeLike = np.float32) -> None:
        super().__init__()
        positive(self, channel=channel)
        self.channel = channel
        self.weight = Parameter(np.full(channel, w, dtype))

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        if self.channel == 1:
            return prelu(x, self.weight)
        if x.ndim < 2 or x.shape[1] != self.channel:
            raise ShapeError(f"PReLU expects input (batch, {self.channel}, ...), got {x.shape}")
        return prelu(x, self.weight.reshape(-1, *(1,) * (x.ndim - 2)))

    def describe(self) -> str:
        """The number of weights."""
        return str(self.channel)


class GLU(Cell):
    """The first half of an axis times the sigmoid of the second.

    Reference:
        Dauphin et al. 2017, arXiv:1612.08083.
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Tensor) -> Tensor:
        """The output, half as long along the axis."""
        return glu(x, self.axis)


class Softmin(Cell):
    """The softmax of `-x` along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return softmax(-x, self.axis)


class Identity(Cell):
    """The input itself."""

    def construct(self, x: Tensor) -> Tensor:
        """The input."""
        return x
