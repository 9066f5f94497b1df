"""The decoder block of a language model, normalized before each part."""

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ..random import Key
from ..tensor import Tensor
from .attention import MultiHeadSelfAttention
from .cell import Cell
from .dropout import Dropout
from .feed_forward import FeedForward, SwiGLU, check_word
from .grouped_query import GroupedQueryAttention
from .norm import LayerNorm, RMSNorm
from .parameters import keys_for
from .rotary import RotaryEmbedding

Activation = Literal["gelu", "relu", "silu", "swiglu"]
Norm = Literal["layer", "rms"]

_ACTIVATIONS: dict[str, type[Cell]] = {"gelu": FeedForward, "relu": FeedForward, "silu": FeedForward, "swiglu": SwiGLU}
_NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


class TransformerBlock(Cell):
    """`x += attn(norm1(x)); x += mlp(norm2(x))`.

    Args:
        width: Length of the last axis.
        heads: Of the attention.
        hidden: Between the layers of the feed-forward part; by default what `FeedForward` and `SwiGLU` take.
        activation: One of `gelu`, `relu`, `silu`, or `swiglu`, which gates.
        norm: `layer` or `rms`.
        is_causal: Whether a position sees none after it.
        is_fused: Whether queries, keys and values come from one projection; not with `kv_heads` or `rope`.
        kv_heads: How many heads of keys and values the heads share; all have their own by default.
        rope: What turns queries and keys by their positions.
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
        kv_heads: int | None = None,
        rope: RotaryEmbedding | None = None,
        dropout: float = 0.0,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        check_word(self, "norm", norm, _NORMS)
        check_word(self, "activation", activation, _ACTIVATIONS)
        if is_fused and (kv_heads is not None or rope is not None):
            raise ValueError(
                "TransformerBlock fuses the projections only without kv_heads and rope; leave is_fused out"
            )
        of_attn, of_mlp = keys_for(key, 2)
        self.norm1 = _NORMS[norm](width, dtype=dtype)
        self.attn: MultiHeadSelfAttention | GroupedQueryAttention
        if kv_heads is None and rope is None:
            self.attn = MultiHeadSelfAttention(
                width, heads, is_causal=is_causal, is_fused=is_fused, dropout=dropout, key=of_attn, dtype=dtype
            )
        else:
            shared = heads if kv_heads is None else kv_heads
            self.attn = GroupedQueryAttention(
                width, heads, shared, rope=rope, is_causal=is_causal, dropout=dropout, key=of_attn, dtype=dtype
            )
        self.norm2 = _NORMS[norm](width, dtype=dtype)
        self.mlp: FeedForward | SwiGLU
        if activation == "swiglu":
            self.mlp = SwiGLU(width, hidden, key=of_mlp, dtype=dtype)
        else:
            self.mlp = FeedForward(width, hidden, activation, key=of_mlp, dtype=dtype)
        self.dropout: Dropout | None = Dropout(dropout) if dropout else None

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        x = x + self.attn(self.norm1(x))
        y: Tensor = self.mlp(self.norm2(x))
        return x + (y if self.dropout is None else self.dropout(y))
