"""Activations with straight pieces and bounds."""

from ..ops import hardshrink, hardsigmoid, hardswish, hardtanh, relu6, softshrink
from ..ops import threshold as thresholded
from ..tensor import Tensor
from .cell import Cell


class ReLU6(Cell):
    """`min(max(x, 0), 6)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        return relu6(x)


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
