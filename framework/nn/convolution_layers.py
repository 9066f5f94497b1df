"""Convolutions and transposed convolutions of sequences, images and volumes.

`Convolution` holds the arguments that they share. In a transposed convolution `same` makes `input * stride` places of
`input`, and `pad` cuts `padding` places off both sides; its weight is `(in_channels, out_channels / group,
*kernel_size)`.
"""

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from ..ops.sliding_window import ConvolutionOptions
from ..random import Key
from ..tensor import Parameter, Tensor
from .cell import Cell
from .initializers import HeUniform, Initializer, Uniform
from .parameters import keys_for, new_parameter, positive

PadMode = Literal["same", "valid", "pad"]
PerAxis = int | Sequence[int]

_AXES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


class Convolution(Cell):
    """A window that slides over one to three axes; the layers of each number derive from it, one level down.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Lengths of the window.
        stride: How far it moves.
        pad_mode: `same` (zeros around, so that the output has `ceil(input / stride)` places), `valid` (none), `pad`.
        padding: Zeros on both sides of every axis; only with `pad`.
        dilation: Distance of the window's elements.
        group: Into how many separate groups the channels fall.
        has_bias: Whether there is a bias.
        weight_init: First weights; uniform within `1 / sqrt(fan_in)` by default.
        bias_init: First biases; the same range by default.
        key: What the first values are drawn with; the context's next key by default.
        dtype: Of the parameters.
    """

    axes: ClassVar[int]
    is_transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: PerAxis,
        stride: PerAxis = 1,
        pad_mode: PadMode = "same",
        padding: PerAxis = 0,
        dilation: PerAxis = 1,
        group: int = 1,
        has_bias: bool = True,
        weight_init: Initializer | None = None,
        bias_init: Initializer | None = None,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, in_channels=in_channels, out_channels=out_channels, group=group)
        self.in_channels, self.out_channels, self.group, self.pad_mode = in_channels, out_channels, group, pad_mode
        self.kernel_size, self.stride = self.per_axis("kernel_size", kernel_size), self.per_axis("stride", stride)
        self.padding, self.dilation = self.per_axis("padding", padding), self.per_axis("dilation", dilation)
        self._check_window()
        of_weight, of_bias = keys_for(key, 2)
        ends = (in_channels, out_channels) if self.is_transposed else (out_channels, in_channels)
        shape = (ends[0], ends[1] // group, *self.kernel_size)
        self.weight = new_parameter(weight_init or HeUniform(sqrt(5.0)), shape, of_weight, dtype)
        self.bias: Parameter | None = None
        if has_bias:
            range_of_bias = Uniform(1.0 / sqrt(prod(shape[1:])))
            self.bias = new_parameter(bias_init or range_of_bias, (out_channels,), of_bias, dtype)

    def per_axis(self, name: str, value: PerAxis) -> tuple[int, ...]:
        """Return one number for each axis.

        Raises:
            ValueError: More or fewer numbers than axes.
        """
        return per_axis(self, name, value, self.axes)

    def _check_window(self) -> None:
        kind = type(self).__name__
        for name in ("kernel_size", "stride", "dilation"):
            of_axes = zip(_AXES[self.axes], getattr(self, name), strict=True)
            positive(self, **{f"{name} ({axis})": length for axis, length in of_axes})
        if self.in_channels % self.group or self.out_channels % self.group:
            raise ValueError(
                f"{kind} expects channels divisible by group {self.group}, "
                f"got {self.in_channels} and {self.out_channels}"
            )
        if self.pad_mode not in ("same", "valid", "pad"):
            raise ValueError(f"{kind} expects pad_mode to be one of same, valid, pad, got {self.pad_mode!r}")
        if min(self.padding) < 0:
            raise ValueError(f"{kind} expects padding of 0 or more, got {self.padding}")
        if any(self.padding) and self.pad_mode != "pad":
            raise ValueError(f"{kind} uses padding only with pad_mode='pad', got {self.padding} with {self.pad_mode!r}")

    def window(self, x: Tensor) -> ConvolutionOptions:
        """Return the arguments of the operation, the input's shape having been checked.

        Raises:
            ShapeError: The input has other axes or other channels.
        """
        if x.ndim != self.axes + 2 or x.shape[1] != self.in_channels:
            axes = ", ".join(_AXES[self.axes])
            raise ShapeError(f"{type(self).__name__} expects input (batch, {self.in_channels}, {axes}), got {x.shape}")
        padding = self.padding if self.pad_mode == "pad" else self.pad_mode
        return {"stride": self.stride, "padding": padding, "dilation": self.dilation, "groups": self.group}

    def describe(self) -> str:
        """Return channels, window and what differs from the default."""
        parts = [f"{self.in_channels}, {self.out_channels}, {self.kernel_size}"]
        if set(self.stride) != {1}:
            parts.append(f"stride={self.stride}")
        if self.pad_mode != "same":
            parts.append(f"pad_mode={self.pad_mode!r}")
        return ", ".join(parts)


def per_axis(cell: Cell, name: str, value: PerAxis, axes: int) -> tuple[int, ...]:
    """Return the numbers, one for each of `axes` axes.

    Raises:
        ValueError: More or fewer numbers than axes; the message names the cell's class and the argument.
    """
    if isinstance(value, int | np.integer):
        return (int(value),) * axes
    numbers = tuple(int(part) for part in value)
    if len(numbers) != axes:
        raise ValueError(f"{type(cell).__name__} expects {name} to be one number or {axes}, got {numbers}")
    return numbers


class Conv1d(Convolution):
    """Sequences correlated with a window that slides over them.

    Shape:
        `(batch, in_channels, length) -> (batch, out_channels, length')`
    """

    axes = 1

    def construct(self, x: Tensor) -> Tensor:
        """Return the output sequences."""
        return conv1d(x, self.weight, self.bias, **self.window(x))


class Conv2d(Convolution):
    """Images correlated with a window that slides over them.

    Shape:
        `(batch, in_channels, height, width) -> (batch, out_channels, height', width')`
    """

    axes = 2

    def construct(self, x: Tensor) -> Tensor:
        """Return the output images."""
        return conv2d(x, self.weight, self.bias, **self.window(x))


class Conv3d(Convolution):
    """Volumes correlated with a window that slides over them.

    Shape:
        `(batch, in_channels, depth, height, width) -> (batch, out_channels, depth', height', width')`
    """

    axes = 3

    def construct(self, x: Tensor) -> Tensor:
        """Return the output volumes."""
        return conv3d(x, self.weight, self.bias, **self.window(x))


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
        """Return the output sequences."""
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
        """Return the output images."""
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
        """Return the output volumes."""
        return conv_transpose3d(x, self.weight, self.bias, **self.window(x), output_padding=self.output_padding)
