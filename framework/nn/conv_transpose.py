"""Transposed convolution: every element puts down a window, so that strides make the output larger.

The arguments are those of `Convolution`; `same` makes `input * stride` places of `input`, and `pad` cuts `padding`
places off both sides. The weight is `(in_channels, out_channels / group, *kernel_size)`.
"""

from typing import Any

from ..ops import conv_transpose1d, conv_transpose2d, conv_transpose3d
from ..tensor import Tensor
from .convolution import Convolution, PerAxis


class Conv1dTranspose(Convolution):
    """The transpose of `Conv1d`.

    Args:
        arguments: Those of `Convolution`.
        output_padding: Places added at the end, fewer than the stride.

    Shape:
        `(batch, in_channels, length) -> (batch, out_channels, length')`
    """

    axes = 1
    is_transposed = True

    def __init__(self, *arguments: Any, output_padding: PerAxis = 0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.output_padding = self.per_axis("output_padding", output_padding)

    def construct(self, x: Tensor) -> Tensor:
        """The output sequences."""
        return conv_transpose1d(x, self.weight, self.bias, **self.window(x), output_padding=self.output_padding)


class Conv2dTranspose(Convolution):
    """The transpose of `Conv2d`.

    Args:
        arguments: Those of `Convolution`.
        output_padding: Rows and columns added at the end, fewer than the stride.

    Shape:
        `(batch, in_channels, height, width) -> (batch, out_channels, height', width')`
    """

    axes = 2
    is_transposed = True

    def __init__(self, *arguments: Any, output_padding: PerAxis = 0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.output_padding = self.per_axis("output_padding", output_padding)

    def construct(self, x: Tensor) -> Tensor:
        """The output images."""
        return conv_transpose2d(x, self.weight, self.bias, **self.window(x), output_padding=self.output_padding)


class Conv3dTranspose(Convolution):
    """The transpose of `Conv3d`.

    Args:
        arguments: Those of `Convolution`.
        output_padding: Planes, rows and columns added at the end, fewer than the stride.

    Shape:
        `(batch, in_channels, depth, height, width) -> (batch, out_channels, depth', height', width')`
    """

    axes = 3
    is_transposed = True

    def __init__(self, *arguments: Any, output_padding: PerAxis = 0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.output_padding = self.per_axis("output_padding", output_padding)

    def construct(self, x: Tensor) -> Tensor:
        """The output volumes."""
        return conv_transpose3d(x, self.weight, self.bias, **self.window(x), output_padding=self.output_padding)
