"""More activations as cells: bounded, shrinking, smooth and gated ones."""

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import (
    celu,
    elu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    logsigmoid,
    mish,
    prelu,
    relu6,
    selu,
    softmax,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
)
from ..ops import threshold as thresholded
from ..tensor import Parameter, Tensor
from .cell import Cell
from .parameters import positive


class ReLU6(Cell):
    """`min(max(x, 0), 6)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return relu6(x)


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


class HSigmoid(Cell):
    """`min(max(x / 6 + 1 / 2, 0), 1)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return hardsigmoid(x)


class HSwish(Cell):
    """`x * min(max(x + 3, 0), 6) / 6`.

    Reference:
        Howard et al. 2019, arXiv:1905.02244.
    """

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return hardswish(x)


class Hardtanh(Cell):
    """`x` between `min_val` and `max_val`, and the nearer of the two outside."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        self.min_val, self.max_val = float(min_val), float(max_val)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return hardtanh(x, self.min_val, self.max_val)

    def describe(self) -> str:
        """The arguments."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


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


class Threshold(Cell):
    """`x` above `threshold`, `value` elsewhere."""

    def __init__(self, threshold: float, value: float) -> None:
        super().__init__()
        self.threshold, self.value = float(threshold), float(value)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return thresholded(x, self.threshold, self.value)

    def describe(self) -> str:
        """The arguments."""
        return f"threshold={self.threshold}, value={self.value}"


class HShrink(Cell):
    """`x` where its size is above `lambd`, 0 elsewhere."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = float(lambd)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return hardshrink(x, self.lambd)

    def describe(self) -> str:
        """The arguments."""
        return f"lambd={self.lambd}"


class SoftShrink(Cell):
    """`x` moved towards 0 by `lambd`, and 0 where it would cross it."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = float(lambd)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return softshrink(x, self.lambd)

    def describe(self) -> str:
        """The arguments."""
        return f"lambd={self.lambd}"


class Tanhshrink(Cell):
    """`x - tanh(x)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return tanhshrink(x)


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
