"""What a transformer does position by position: two layers, or the gated three of SwiGLU."""

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ..ops import silu
from ..random import Key
from ..tensor import Tensor
from .activation import GELU, ReLU, SiLU
from .cell import Cell
from .linear import Dense
from .parameters import keys_for

Activation = Literal["gelu", "relu", "silu"]

_ACTIVATIONS: dict[str, type[Cell]] = {"gelu": GELU, "relu": ReLU, "silu": SiLU}


class FeedForward(Cell):
    """`down(act(up(x)))`, position by position.

    Args:
        width: Length of the last axis.
        hidden: Length between the two layers; four times the width by default.
        activation: One of `gelu`, `relu`, `silu`.
        key: What the first weights are drawn with.
        dtype: Of the parameters.
    """

    def __init__(
        self,
        width: int,
        hidden: int | None = None,
        activation: Activation = "gelu",
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        check_word(self, "activation", activation, _ACTIVATIONS)
        of_up, of_down = keys_for(key, 2)
        size = 4 * width if hidden is None else hidden
        self.up = Dense(width, size, key=of_up, dtype=dtype)
        self.act = _ACTIVATIONS[activation]()
        self.down = Dense(size, width, key=of_down, dtype=dtype)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = self.down(self.act(self.up(x)))
        return y


class SwiGLU(Cell):
    """`down(silu(gate(x)) * up(x))`, position by position.

    Args:
        width: Length of the last axis.
        hidden: Length between the layers; by default 8/3 of the width, rounded up to a multiple of 8, which makes as
            many weights as a `FeedForward` of four times the width.
        has_bias: Whether the layers have a bias.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Reference:
        Shazeer 2020, arXiv:2002.05202, eq. 6.
    """

    def __init__(
        self,
        width: int,
        hidden: int | None = None,
        has_bias: bool = False,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        of_gate, of_up, of_down = keys_for(key, 3)
        size = -(-8 * width // 24) * 8 if hidden is None else hidden
        self.gate = Dense(width, size, has_bias=has_bias, key=of_gate, dtype=dtype)
        self.up = Dense(width, size, has_bias=has_bias, key=of_up, dtype=dtype)
        self.down = Dense(size, width, has_bias=has_bias, key=of_down, dtype=dtype)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = self.down(silu(self.gate(x)) * self.up(x))
        return y


def check_word(cell: Cell, what: str, word: str, known: dict[str, type]) -> None:
    """Nothing; the word is a known one.

    Raises:
        ValueError: It is not; the message names the cell's class, the argument and the known words.
    """
    if word not in known:
        raise ValueError(f"{type(cell).__name__} expects {what} to be one of {', '.join(known)}, got {word!r}")
