"""The fully connected layer."""

from math import sqrt

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import linear
from ..random import Key
from ..tensor import Parameter, Tensor
from .cell import Cell
from .fan import HeUniform
from .init import Initializer, Uniform
from .parameters import keys_for, new_parameter, positive


class Dense(Cell):
    """`x @ weight.T + bias`.

    Args:
        in_channels: Length of the last axis of the input.
        out_channels: Length of the last axis of the output.
        weight_init: First weights; uniform within `1 / sqrt(in_channels)` by default.
        bias_init: First biases; the same range by default.
        has_bias: Whether there is a bias.
        key: What the first values are drawn with; the context's next key by default.
        dtype: Of the parameters.

    Shape:
        `(..., in_channels) -> (..., out_channels)`

    Example:
        >>> Dense(784, 10, key=Key(0))(Tensor(np.zeros((2, 784), np.float32))).shape
        (2, 10)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Initializer | None = None,
        bias_init: Initializer | None = None,
        has_bias: bool = True,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, in_channels=in_channels, out_channels=out_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        of_weight, of_bias = keys_for(key, 2)
        shape = (out_channels, in_channels)
        self.weight = new_parameter(weight_init or HeUniform(sqrt(5.0)), shape, of_weight, dtype)
        self.bias: Parameter | None = None
        if has_bias:
            range_of_bias = Uniform(1.0 / sqrt(in_channels))
            self.bias = new_parameter(bias_init or range_of_bias, (out_channels,), of_bias, dtype)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input but for its last axis."""
        if x.ndim == 0 or x.shape[-1] != self.in_channels:
            raise ShapeError(
                f"Dense expects input (..., {self.in_channels}), got {x.shape}; its last axis must equal in_channels"
            )
        return linear(x, self.weight, self.bias)

    def describe(self) -> str:
        """The sizes, and whether there is no bias."""
        return f"{self.in_channels}, {self.out_channels}" + ("" if self.bias is not None else ", has_bias=False")
