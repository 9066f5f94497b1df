"""Pooling of sequences, images and volumes: over windows, or to a given output size."""

from typing import ClassVar

from ..ops import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from ..tensor import Tensor
from .cell import Cell
from .convolution_layers import PerAxis, per_axis
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
        """Return the window."""
        return f"{self.kernel_size}, stride={self.stride}"


class MaxPool1d(_Pool):
    """The largest element of each window; the first of equals gets the gradient. Padding is never the largest.

    Shape:
        `(batch, channels, length) -> (batch, channels, length')`
    """

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """Return the shorter sequences."""
        return max_pool1d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class MaxPool2d(_Pool):
    """The largest element of each window; the first of equals gets the gradient. Padding is never the largest.

    Shape:
        `(batch, channels, height, width) -> (batch, channels, height', width')`
    """

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller images."""
        return max_pool2d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class MaxPool3d(_Pool):
    """The largest element of each window; the first of equals gets the gradient. Padding is never the largest.

    Shape:
        `(batch, channels, depth, height, width) -> (batch, channels, depth', height', width')`
    """

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller volumes."""
        return max_pool3d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class AvgPool1d(_Pool):
    """The mean of each window; padding counts as zeros.

    Shape:
        `(batch, channels, length) -> (batch, channels, length')`
    """

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """Return the shorter sequences."""
        return avg_pool1d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class AvgPool2d(_Pool):
    """The mean of each window; padding counts as zeros.

    Shape:
        `(batch, channels, height, width) -> (batch, channels, height', width')`
    """

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller images."""
        return avg_pool2d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class AvgPool3d(_Pool):
    """The mean of each window; padding counts as zeros.

    Shape:
        `(batch, channels, depth, height, width) -> (batch, channels, depth', height', width')`
    """

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller volumes."""
        return avg_pool3d(x, self.kernel_size, self.stride, self.padding, 1, self.ceil_mode)


class GlobalAvgPool2d(Cell):
    """The mean of each channel: `(batch, channels, height, width) -> (batch, channels)`."""

    def construct(self, x: Tensor) -> Tensor:
        """Return the means."""
        return global_avg_pool2d(x)


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
        """Return the size."""
        return str(self.output_size)


class AdaptiveAvgPool1d(_AdaptivePool):
    """The mean of each window: `(batch, channels, length) -> (batch, channels, *output_size)`."""

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller ones."""
        return adaptive_avg_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """The mean of each window: `(batch, channels, height, width) -> (batch, channels, *output_size)`."""

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller ones."""
        return adaptive_avg_pool2d(x, self.output_size)


class AdaptiveAvgPool3d(_AdaptivePool):
    """The mean of each window: `(batch, channels, depth, height, width) -> (batch, channels, *output_size)`."""

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller ones."""
        return adaptive_avg_pool3d(x, self.output_size)


class AdaptiveMaxPool1d(_AdaptivePool):
    """The largest element of each window: `(batch, channels, length) -> (batch, channels, *output_size)`."""

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller ones."""
        return adaptive_max_pool1d(x, self.output_size)


class AdaptiveMaxPool2d(_AdaptivePool):
    """The largest element of each window: `(batch, channels, height, width) -> (batch, channels, *output_size)`."""

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller ones."""
        return adaptive_max_pool2d(x, self.output_size)


class AdaptiveMaxPool3d(_AdaptivePool):
    """The largest of each window: `(batch, channels, depth, height, width) -> (batch, channels, *output_size)`."""

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """Return the smaller ones."""
        return adaptive_max_pool3d(x, self.output_size)
