"""Pooling to a given size, whatever the size of the input."""

from typing import ClassVar

from ..ops import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from ..tensor import Tensor
from .cell import Cell
from .convolution import PerAxis, per_axis
from .parameters import positive


class _AdaptivePool(Cell):
    """Windows that share out the input evenly: `i` of `n` goes from `i L // n` to the ceiling of `(i + 1) L / n`.

    Args:
        output_size: Lengths of the output.
    """

    axes: ClassVar[int]

    def __init__(self, output_size: PerAxis) -> None:
        super().__init__()
        self.output_size = per_axis(self, "output_size", output_size, self.axes)
        positive(self, output_size=min(self.output_size))

    def describe(self) -> str:
        """The size."""
        return str(self.output_size)


class AdaptiveAvgPool1d(_AdaptivePool):
    """The mean of each window: `(batch, channels, length) -> (batch, channels, *output_size)`."""

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """The smaller ones."""
        return adaptive_avg_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """The mean of each window: `(batch, channels, height, width) -> (batch, channels, *output_size)`."""

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """The smaller ones."""
        return adaptive_avg_pool2d(x, self.output_size)


class AdaptiveAvgPool3d(_AdaptivePool):
    """The mean of each window: `(batch, channels, depth, height, width) -> (batch, channels, *output_size)`."""

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """The smaller ones."""
        return adaptive_avg_pool3d(x, self.output_size)


class AdaptiveMaxPool1d(_AdaptivePool):
    """The largest element of each window: `(batch, channels, length) -> (batch, channels, *output_size)`."""

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """The smaller ones."""
        return adaptive_max_pool1d(x, self.output_size)


class AdaptiveMaxPool2d(_AdaptivePool):
    """The largest element of each window: `(batch, channels, height, width) -> (batch, channels, *output_size)`."""

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """The smaller ones."""
        return adaptive_max_pool2d(x, self.output_size)


class AdaptiveMaxPool3d(_AdaptivePool):
    """The largest of each window: `(batch, channels, depth, height, width) -> (batch, channels, *output_size)`."""

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """The smaller ones."""
        return adaptive_max_pool3d(x, self.output_size)
