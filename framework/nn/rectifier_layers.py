"""Activations as cells: rectifiers and bounds with straight pieces, and their smooth relatives."""

from ..ops import (
    celu,
    elu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    logsigmoid,
    mish,
    relu6,
    selu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
)
from ..ops import threshold as thresholded
from ..tensor import Tensor
from .cell import Cell


class ReLU6(Cell):
    """`min(max(x, 0), 6)`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return relu6(x)


class Hardtanh(Cell):
    """`x` between `min_val` and `max_val`, and the nearer of the two outside."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        self.min_val, self.max_val = float(min_val), float(max_val)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return hardtanh(x, self.min_val, self.max_val)

    def describe(self) -> str:
        """Return the arguments."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class HSigmoid(Cell):
    """`min(max(x / 6 + 1 / 2, 0), 1)`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return hardsigmoid(x)


class HSwish(Cell):
    """`x * min(max(x + 3, 0), 6) / 6`.

    Reference:
        Howard et al. 2019, arXiv:1905.02244.
    """

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return hardswish(x)


class Threshold(Cell):
    """`x` above `threshold`, `value` elsewhere."""

    def __init__(self, threshold: float, value: float) -> None:
        super().__init__()
        self.threshold, self.value = float(threshold), float(value)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return thresholded(x, self.threshold, self.value)

    def describe(self) -> str:
        """Return the arguments."""
        return f"threshold={self.threshold}, value={self.value}"


class HShrink(Cell):
    """`x` where its size is above `lambd`, 0 elsewhere."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = float(lambd)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return hardshrink(x, self.lambd)

    def describe(self) -> str:
        """Return the arguments."""
        return f"lambd={self.lambd}"


class SoftShrink(Cell):
    """`x` moved towards 0 by `lambd`, and 0 where it would cross it."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = float(lambd)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return softshrink(x, self.lambd)

    def describe(self) -> str:
        """Return the arguments."""
        return f"lambd={self.lambd}"


class ELU(Cell):
    """`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    Reference:
        Clevert et al. 2016, arXiv:1511.07289.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = float(alpha)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return elu(x, self.alpha)

    def describe(self) -> str:
        """Return the arguments."""
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
        """Return the output, of the shape of the input."""
        return celu(x, self.alpha)

    def describe(self) -> str:
        """Return the arguments."""
        return f"alpha={self.alpha}"


class SELU(Cell):
    """The ELU that keeps mean 0 and variance 1.

    Reference:
        Klambauer et al. 2017, arXiv:1706.02515.
    """

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return selu(x)


class Mish(Cell):
    """`x * tanh(softplus(x))`.

    Reference:
        Misra 2019, arXiv:1908.08681.
    """

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return mish(x)


class Softplus(Cell):
    """`log(1 + exp(beta * x)) / beta`."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = float(beta)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return softplus(x, self.beta)

    def describe(self) -> str:
        """Return the arguments."""
        return f"beta={self.beta}"


class Softsign(Cell):
    """`x / (1 + |x|)`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return softsign(x)


class LogSigmoid(Cell):
    """Logarithm of the sigmoid."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return logsigmoid(x)


class Tanhshrink(Cell):
    """`x - tanh(x)`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        return tanhshrink(x)
