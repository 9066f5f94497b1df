"""Convolution of sequences, images and volumes; `Convolution` tells the arguments that all three share."""

from ..ops import conv1d, conv2d, conv3d
from ..tensor import Tensor
from .convolution import Convolution


class Conv1d(Convolution):
    """Sequences correlated with a window that slides over them.

    Shape:
        `(batch, in_channels, length) -> (batch, out_channels, length')`
    """

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """The output sequences."""
        return conv1d(x, self.weight, self.bias, **self.window(x))


class Conv2d(Convolution):
    """Images correlated with a window that slides over them.

    Shape:
        `(batch, in_channels, height, width) -> (batch, out_channels, height', width')`
    """

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """The output images."""
        return conv2d(x, self.weight, self.bias, **self.window(x))


class Conv3d(Convolution):
    """Volumes correlated with a window that slides over them.

    Shape:
        `(batch, in_channels, depth, height, width) -> (batch, out_channels, depth', height', width')`
    """

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """The output volumes."""
        return conv3d(x, self.weight, self.bias, **self.window(x))
