"""Activations as cells, so that they have a site; also those that gate or learn."""

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import gelu, glu, leaky_relu, log_softmax, prelu, relu, sigmoid, silu, softmax, tanh
from ..tensor import Parameter, Tensor
from .cell import Cell
from .parameters import positive


class ReLU(Cell):
    """`max(x, 0)`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = relu(x)
        return y


class LeakyReLU(Cell):
    """`x` where it is positive, `alpha * x` elsewhere."""

    def __init__(self, alpha: float = 0.2) -> None:
        super().__init__()
        self.alpha = float(alpha)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = leaky_relu(x, self.alpha)
        return y

    def describe(self) -> str:
        """Return the slope."""
        return f"alpha={self.alpha}"


class GELU(Cell):
    """`x * Phi(x)`, Phi being the normal distribution; by its tanh form when `approximate`.

    Reference:
        Hendrycks and Gimpel 2016, arXiv:1606.08415.
    """

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = approximate

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = gelu(x, self.approximate)
        return y

    def describe(self) -> str:
        """Return whether it is the exact form."""
        return "" if self.approximate else "approximate=False"


class SiLU(Cell):
    """`x * sigmoid(x)`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = silu(x)
        return y


class Sigmoid(Cell):
    """`1 / (1 + exp(-x))`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = sigmoid(x)
        return y


class Tanh(Cell):
    """Hyperbolic tangent."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = tanh(x)
        return y


class Softmax(Cell):
    """`exp(x)` over its sum along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = softmax(x, self.axis)
        return y


class LogSoftmax(Cell):
    """Logarithm of the softmax along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        y: Tensor = log_softmax(x, self.axis)
        return y


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
        """Return the output, of the shape of the input."""
        if self.channel == 1:
            return prelu(x, self.weight)
        if x.ndim < 2 or x.shape[1] != self.channel:
            raise ShapeError(f"PReLU expects input (batch, {self.channel}, ...), got {x.shape}")
        return prelu(x, self.weight.reshape(-1, *(1,) * (x.ndim - 2)))

    def describe(self) -> str:
        """Return the number of weights."""
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
        """Return the output, half as long along the axis."""
        return glu(x, self.axis)


class Softmin(Cell):
    """The softmax of `-x` along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return softmax(-x, self.axis)


class Identity(Cell):
    """The input itself."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x
