"""The plain layers: dense, embedding, dropout, flatten."""

from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..errors import DtypeError, ShapeError
from ..ops import dropout, flatten, gather, linear, ones
from ..random import Key, draw_key, fold_in, next_key
from ..tensor import Parameter, Tensor
from .cell import Cell
from .initializers import HeUniform, Initializer, Normal, Uniform
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
        """Return the output, of the shape of the input but for its last axis."""
        if x.ndim == 0 or x.shape[-1] != self.in_channels:
            raise ShapeError(
                f"Dense expects input (..., {self.in_channels}), got {x.shape}; its last axis must equal in_channels"
            )
        return linear(x, self.weight, self.bias)

    def describe(self) -> str:
        """Return the sizes, and whether there is no bias."""
        return f"{self.in_channels}, {self.out_channels}" + ("" if self.bias is not None else ", has_bias=False")


class Embedding(Cell):
    """`weight[indices]`.

    Args:
        vocab_size: Rows of the table.
        embedding_size: Length of a row.
        embedding_init: First rows; normal with standard deviation 0.02 by default.
        key: What the first rows are drawn with; the context's next key by default.
        dtype: Of the table.

    Shape:
        integers `(...) -> (..., embedding_size)`
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        embedding_init: Initializer | None = None,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, vocab_size=vocab_size, embedding_size=embedding_size)
        self.vocab_size, self.embedding_size = vocab_size, embedding_size
        (of_weight,) = keys_for(key, 1)
        # Radford et al. 2018 draw all weights of GPT so; PyTorch's N(0, 1) makes tied output logits too large.
        self.weight = new_parameter(embedding_init or Normal(0.02), (vocab_size, embedding_size), of_weight, dtype)

    def construct(self, indices: Tensor) -> Tensor:
        """Return the rows, one for each index."""
        if indices.dtype.kind not in "iu":
            raise DtypeError(
                f"Embedding expects integer indices, got {indices.dtype}; convert them with astype('int64')"
            )
        rows: Tensor = gather(self.weight, indices)
        return rows

    def describe(self) -> str:
        """Return the size of the table."""
        return f"{self.vocab_size}, {self.embedding_size}"


class Dropout(Cell):
    """Zero with probability `p`, else `x / (1 - p)`; the input itself outside training.

    Args:
        p: Share of elements to drop, in [0, 1).
        key: Masks are drawn with its numbered children, one a call; with the context's next keys by default, which
            checkpoints of a training state keep and compiled functions take anew at every call.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    """

    def __init__(self, p: float = 0.5, *, key: Key | None = None) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"{type(self).__name__} expects p in [0, 1), got {p}")
        self.p = float(p)
        self.key = key
        self._calls = [0]  # in a list, so that compiled functions do not depend on it

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
        if not self.training or self.p == 0.0:
            return x
        return self._dropped(x, self._next_key())

    def _dropped(self, x: Tensor, key: Key) -> Tensor:
        y: Tensor = dropout(x, key, self.p)
        return y

    def _next_key(self) -> Key:
        """Return a key that no call before had; a compiled function takes one anew whenever it runs."""
        return next_key() if self.key is None else draw_key(self._next_child)

    def _next_child(self) -> Key:
        assert self.key is not None
        self._calls[0] += 1
        return fold_in(self.key, self._calls[0] - 1)

    @property
    def calls(self) -> int:
        """How many masks were drawn with children of the key."""
        return self._calls[0]

    @calls.setter
    def calls(self, count: int) -> None:
        self._calls[0] = count

    def describe(self) -> str:
        """Return the share of dropped elements."""
        return f"p={self.p}"


class _ChannelDropout(Dropout):
    """Whole channels are zero with probability `p`, the others divided by `1 - p`; two levels deep for its one mask.

    Reference:
        Tompson et al. 2015, arXiv:1411.4280.
    """

    axes: ClassVar[tuple[str, ...]]

    def _dropped(self, x: Tensor, key: Key) -> Tensor:
        if x.ndim != 2 + len(self.axes):
            raise ShapeError(
                f"{type(self).__name__} expects input (batch, channels, {', '.join(self.axes)}), got {x.shape}"
            )
        return x * dropout(ones((*x.shape[:2], *(1,) * len(self.axes)), x.dtype), key, self.p)


class Dropout1d(_ChannelDropout):
    """Dropout of channels of sequences `(batch, channels, length)`."""

    axes = ("length",)


class Dropout2d(_ChannelDropout):
    """Dropout of channels of images `(batch, channels, height, width)`."""

    axes = ("height", "width")


class Dropout3d(_ChannelDropout):
    """Dropout of channels of volumes `(batch, channels, depth, height, width)`."""

    axes = ("depth", "height", "width")


class Flatten(Cell):
    """The input with axes `start_dim` to `end_dim` joined; all but the first by default."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, x: Tensor) -> Tensor:
        """Return the joined tensor."""
        y: Tensor = flatten(x, self.start_dim, self.end_dim)
        return y
