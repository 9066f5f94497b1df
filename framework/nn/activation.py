"""Activations as cells, so that they have a site."""

from ..ops import gelu, leaky_relu, log_softmax, relu, sigmoid, silu, softmax, tanh
from ..tensor import Tensor
from .cell import Cell


class ReLU(Cell):
    """`max(x, 0)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = relu(x)
        return y


class LeakyReLU(Cell):
    """`x` where it is positive, `alpha * x` elsewhere."""

    def __init__(self, alpha: float = 0.2) -> None:
        super().__init__()
        self.alpha = float(alpha)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = leaky_relu(x, self.alpha)
        return y

    def describe(self) -> str:
        """The slope."""
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
        """The output, of the shape of the input."""
        y: Tensor = gelu(x, self.approximate)
        return y

    def describe(self) -> str:
        """Whether it is the exact form."""
        return "" if self.approximate else "approximate=False"


class SiLU(Cell):
    """`x * sigmoid(x)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = silu(x)
        return y


class Sigmoid(Cell):
    """`1 / (1 + exp(-x))`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = sigmoid(x)
        return y


class Tanh(Cell):
    """Hyperbolic tangent."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = tanh(x)
        return y


class Softmax(Cell):
    """`exp(x)` over its sum along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = softmax(x, self.axis)
        return y


class LogSoftmax(Cell):
    """Logarithm of the softmax along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = log_softmax(x, self.axis)
        return y
