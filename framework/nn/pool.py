"""Pooling of sequences, images and volumes: one number for each window."""

from typing import ClassVar

from ..ops import avg_pool1d, avg_pool2d, avg_pool3d, global_avg_pool2d, max_pool1d, max_pool2d, max_pool3d
from ..tensor import Tensor
from .cell import Cell
from .convolution import PerAxis, per_axis
from .parameters import positive


class _Pool(Cell):
    """The window that all poolings share.

    Args:
        kernel_size: Lengths of the window.
        stride: How far it moves; by its own size by default.
        padding: Elements on both sides, up to half the window.
        ceil_mode: Whether a last window that leaves the axis is kept.
    """

    axes: ClassVar[int]

    def __init__(
        self, kernel_size: PerAxis, stride: PerAxis | None = None, padding: PerAxis = 0, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.kernel_size = per_axis(self, "kernel_size", kernel_size, self.axes)
        self.stride = self.kernel_size if stride is None else per_axis(self, "stride", stride, self.axes)
        self.padding = per_axis(self, "padding", padding, self.axes)
        self.ceil_mode = ceil_mode
        positive(self, kernel_size=min(self.kernel_size), stride=min(self.stride))
        if any(side < 0 or 2 * side > length for side, length in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(
                f"{type(self).__name__} expects padding of 0 up to half the window {self.kernel_size}, "
                f"got {self.padding}"
            )

    def describe(self) -> str:
        """The window."""
        return f"{self.kernel_size}, stride={self.stride}"


class MaxPool1d(_Pool):
    """The largest element of each window; the first of equals gets the gradient. Padding is never the largest.

    Shape:
        `(batch, channels, length) -> (batch, channels, length')`
    """

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """The shorter sequences."""
        return max_pool1d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class MaxPool2d(_Pool):
    """The largest element of each window; the first of equals gets the gradient. Padding is never the largest.

    Shape:
        `(batch, channels, height, width) -> (batch, channels, height', width')`
    """

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """The smaller images."""
        return max_pool2d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class MaxPool3d(_Pool):
    """The largest element of each window; the first of equals gets the gradient. Padding is never the largest.

    Shape:
        `(batch, channels, depth, height, width) -> (batch, channels, depth', height', width')`
    """

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """The smaller volumes."""
        return max_pool3d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class AvgPool1d(_Pool):
    """The mean of each window; padding counts as zeros.

    Shape:
        `(batch, channels, length) -> (batch, channels, length')`
    """

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """The shorter sequences."""
        return avg_pool1d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class AvgPool2d(_Pool):
    """The mean of each window; padding counts as zeros.

    Shape:
        `(batch, channels, height, width) -> (batch, channels, height', width')`
    """

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """The smaller images."""
        return avg_pool2d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class AvgPool3d(_Pool):
    """The mean of each window; padding counts as zeros.

    Shape:
        `(batch, channels, depth, height, width) -> (batch, channels, depth', height', width')`
    """

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """The smaller volumes."""
        return avg_pool3d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class GlobalAvgPool2d(Cell):
    """The mean of each channel: `(batch, channels, height, width) -> (batch, channels)`."""

    def construct(self, x: Tensor) -> Tensor:
        """The means."""
        return global_avg_pool2d(x)
