"""The decoder block of a transformer, normalized before each part."""

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ..random import Key
from ..tensor import Tensor
from .activation import GELU, ReLU, SiLU
from .attention import MultiHeadSelfAttention
from .cell import Cell
from .dropout import Dropout
from .linear import Dense
from .norm import LayerNorm, RMSNorm
from .parameters import keys_for

Activation = Literal["gelu", "relu", "silu"]
Norm = Literal["layer", "rms"]

_ACTIVATIONS: dict[str, type[Cell]] = {"gelu": GELU, "relu": ReLU, "silu": SiLU}
_NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


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
        _check_word(self, "activation", activation, _ACTIVATIONS)
        of_up, of_down = keys_for(key, 2)
        size = 4 * width if hidden is None else hidden
        self.up = Dense(width, size, key=of_up, dtype=dtype)
        self.act = _ACTIVATIONS[activation]()
        self.down = Dense(size, width, key=of_down, dtype=dtype)

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        y: Tensor = self.down(self.act(self.up(x)))
        return y


class TransformerBlock(Cell):
    """`x += attn(norm1(x)); x += mlp(norm2(x))`.

    Args:
        width: Length of the last axis.
        heads: Of the attention.
        hidden: Between the two layers of the feed-forward part; four times the width by default.
        activation: One of `gelu`, `relu`, `silu`.
        norm: `layer` or `rms`.
        is_causal: Whether a position sees none after it.
        is_fused: Whether queries, keys and values come from one projection.
        dropout: Share of each part's output to drop in training.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        `(batch, positions, width) -> (batch, positions, width)`

    Reference:
        Xiong et al. 2020, arXiv:2002.04745, figure 1 b.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int | None = None,
        activation: Activation = "gelu",
        *,
        norm: Norm = "layer",
        is_causal: bool = True,
        is_fused: bool = False,
        dropout: float = 0.0,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        _check_word(self, "norm", norm, _NORMS)
        of_attn, of_mlp = keys_for(key, 2)
        self.norm1 = _NORMS[norm](width, dtype=dtype)
        self.attn = MultiHeadSelfAttention(
            width, heads, is_causal=is_causal, is_fused=is_fused, dropout=dropout, key=of_attn, dtype=dtype
        )
        self.norm2 = _NORMS[norm](width, dtype=dtype)
        self.mlp = FeedForward(width, hidden, activation, key=of_mlp, dtype=dtype)
        self.dropout: Dropout | None = Dropout(dropout) if dropout else None

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        x = x + self.attn(self.norm1(x))
        y: Tensor = self.mlp(self.norm2(x))
        return x + (y if self.dropout is None else self.dropout(y))


def _check_word(cell: Cell, what: str, word: str, known: dict[str, type]) -> None:
    if word not in known:
        raise ValueError(f"{type(cell).__name__} expects {what} to be one of {', '.join(known)}, got {word!r}")
