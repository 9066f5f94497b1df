"""Convolution of images."""

from math import prod, sqrt
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import conv2d, pad
from ..random import Key
from ..tensor import Parameter, Tensor
from .cell import Cell
from .fan import HeUniform
from .init import Initializer, Uniform
from .parameters import keys_for, new_parameter, positive

PadMode = Literal["same", "valid", "pad"]
Pair = tuple[int, int]


class Conv2d(Cell):
    """Images correlated with a window that slides over them.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Height and width of the window.
        stride: How far it moves.
        pad_mode: `same` (zeros around, so that the output has `ceil(input / stride)` pixels), `valid` (none), `pad`.
        padding: Zeros on both sides, for height and width; only with `pad`.
        dilation: Distance of the window's elements.
        group: Into how many separate groups the channels fall.
        has_bias: Whether there is a bias.
        weight_init: First weights; uniform within `1 / sqrt(fan_in)` by default.
        bias_init: First biases; the same range by default.
        key: What the first values are drawn with; the context's next key by default.
        dtype: Of the parameters.

    Shape:
        `(batch, in_channels, height, width) -> (batch, out_channels, height', width')`
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        stride: int | Pair = 1,
        pad_mode: PadMode = "same",
        padding: int | Pair = 0,
        dilation: int | Pair = 1,
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
        self.kernel_size, self.stride = pair_of(kernel_size), pair_of(stride)
        self.padding, self.dilation = pair_of(padding), pair_of(dilation)
        self._check_window()
        of_weight, of_bias = keys_for(key, 2)
        shape = (out_channels, in_channels // group, *self.kernel_size)
        self.weight = new_parameter(weight_init or HeUniform(sqrt(5.0)), shape, of_weight, dtype)
        self.bias: Parameter | None = None
        if has_bias:
            range_of_bias = Uniform(1.0 / sqrt(prod(shape[1:])))
            self.bias = new_parameter(bias_init or range_of_bias, (out_channels,), of_bias, dtype)

    def _check_window(self) -> None:
        for name in ("kernel_size", "stride", "dilation"):
            height, width = getattr(self, name)
            positive(self, **{f"{name} (height)": height, f"{name} (width)": width})
        if self.in_channels % self.group or self.out_channels % self.group:
            raise ValueError(
                f"Conv2d expects channels divisible by group {self.group}, "
                f"got {self.in_channels} and {self.out_channels}"
            )
        if self.pad_mode not in ("same", "valid", "pad"):
            raise ValueError(f"Conv2d expects pad_mode to be one of same, valid, pad, got {self.pad_mode!r}")
        if min(self.padding) < 0:
            raise ValueError(f"Conv2d expects padding of 0 or more, got {self.padding}")
        if self.padding != (0, 0) and self.pad_mode != "pad":
            raise ValueError(f"Conv2d uses padding only with pad_mode='pad', got {self.padding} with {self.pad_mode!r}")

    def construct(self, x: Tensor) -> Tensor:
        """The output images."""
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ShapeError(f"Conv2d expects input (batch, {self.in_channels}, height, width), got {x.shape}")
        padding = self.padding
        if self.pad_mode == "same":
            x, padding = self._pad_to_same(x)
        return conv2d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
            groups=self.group,
        )

    def _pad_to_same(self, x: Tensor) -> tuple[Tensor, Pair]:
        """The input and the padding still due: where the two sides differ, the zeros are added here."""
        totals = [
            max(0, (-(-length // stride) - 1) * stride + dilation * (kernel - 1) + 1 - length)
            for length, kernel, stride, dilation in zip(
                x.shape[2:], self.kernel_size, self.stride, self.dilation, strict=True
            )
        ]
        if not any(total % 2 for total in totals):
            return x, (totals[0] // 2, totals[1] // 2)
        sides = [(total // 2, total - total // 2) for total in totals]
        padded: Tensor = pad(x, [(0, 0), (0, 0), *sides])
        return padded, (0, 0)

    def describe(self) -> str:
        """Channels, window and what differs from the default."""
        parts = [f"{self.in_channels}, {self.out_channels}, {self.kernel_size}"]
        if self.stride != (1, 1):
            parts.append(f"stride={self.stride}")
        if self.pad_mode != "same":
            parts.append(f"pad_mode={self.pad_mode!r}")
        return ", ".join(parts)


def pair_of(value: int | Pair) -> Pair:
    """The number for height and for width."""
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))
