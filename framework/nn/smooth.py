"""Activations without a corner."""

from ..ops import celu, elu, logsigmoid, mish, selu, softplus, softsign, tanhshrink
from ..tensor import Tensor
from .cell import Cell


class ELU(Cell):
    """`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    Reference:
        Clevert et al. 2016, arXiv:1511.07289.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = float(alpha)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return elu(x, self.alpha)

    def describe(self) -> str:
        """The arguments."""
        return f"alpha={self.alpha}"


class CELU(Cell):
    """`x` where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere.

    Reference:
        Barron 2017, arXiv:1704.07483.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = float(alpha)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return celu(x, self.alpha)

    def describe(self) -> str:
        """The arguments."""
        return f"alpha={self.alpha}"


class SELU(Cell):
    """The ELU that keeps mean 0 and variance 1.

    Reference:
        Klambauer et al. 2017, arXiv:1706.02515.
    """

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return selu(x)


class Mish(Cell):
    """`x * tanh(softplus(x))`.

    Reference:
        Misra 2019, arXiv:1908.08681.
    """

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return mish(x)


class Softplus(Cell):
    """`log(1 + exp(beta * x)) / beta`."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = float(beta)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return softplus(x, self.beta)

    def describe(self) -> str:
        """The arguments."""
        return f"beta={self.beta}"


class Softsign(Cell):
    """`x / (1 + |x|)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return softsign(x)


class LogSigmoid(Cell):
    """Logarithm of the sigmoid."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return logsigmoid(x)


class Tanhshrink(Cell):
    """`x - tanh(x)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return tanhshrink(x)
