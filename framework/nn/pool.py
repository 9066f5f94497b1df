"""Pooling of images: one number for each window."""

from ..ops import avg_pool2d, global_avg_pool2d, max_pool2d
from ..tensor import Tensor
from .cell import Cell
from .conv import Pair, pair_of
from .parameters import positive


class MaxPool2d(Cell):
    """The largest element of each window; the first of equals gets the gradient.

    Args:
        kernel_size: Height and width of the window.
        stride: How far it moves; by its own size by default.
        padding: Elements on both sides that are never the largest.

    Shape:
        `(batch, channels, height, width) -> (batch, channels, height', width')`
    """

    def __init__(self, kernel_size: int | Pair, stride: int | Pair | None = None, padding: int | Pair = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = _window(self, kernel_size, stride, padding)

    def construct(self, x: Tensor) -> Tensor:
        """The smaller images."""
        return max_pool2d(x, self.kernel_size, self.stride, self.padding)

    def describe(self) -> str:
        """The window."""
        return f"{self.kernel_size}, stride={self.stride}"


class AvgPool2d(Cell):
    """The mean of each window; padding counts as zeros.

    Args:
        kernel_size: Height and width of the window.
        stride: How far it moves; by its own size by default.
        padding: Zeros on both sides.

    Shape:
        `(batch, channels, height, width) -> (batch, channels, height', width')`
    """

    def __init__(self, kernel_size: int | Pair, stride: int | Pair | None = None, padding: int | Pair = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = _window(self, kernel_size, stride, padding)

    def construct(self, x: Tensor) -> Tensor:
        """The smaller images."""
        return avg_pool2d(x, self.kernel_size, self.stride, self.padding)

    def describe(self) -> str:
        """The window."""
        return f"{self.kernel_size}, stride={self.stride}"


class GlobalAvgPool2d(Cell):
    """The mean of each channel: `(batch, channels, height, width) -> (batch, channels)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The means."""
        return global_avg_pool2d(x)


def _window(
    cell: Cell, kernel_size: int | Pair, stride: int | Pair | None, padding: int | Pair
) -> tuple[Pair, Pair, Pair]:
    kernel = pair_of(kernel_size)
    step, sides = kernel if stride is None else pair_of(stride), pair_of(padding)
    positive(cell, kernel_size=min(kernel), stride=min(step))
    if min(sides) < 0 or 2 * sides[0] > kernel[0] or 2 * sides[1] > kernel[1]:
        raise ValueError(f"{type(cell).__name__} expects padding of 0 up to half the window {kernel}, got {sides}")
    return kernel, step, sides
