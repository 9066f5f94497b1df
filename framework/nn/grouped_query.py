"""Self-attention in which several heads share their keys and values."""

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import broadcast_to, scaled_dot_product_attention
from ..random import Key
from ..tensor import Tensor
from .cell import Cell
from .dropout import Dropout
from .linear import Dense
from .parameters import keys_for, positive
from .rotary import RotaryEmbedding


class GroupedQueryAttention(Cell):
    """Causal self-attention of `heads` queries over `kv_heads` keys and values; 1 of them is multi-query attention.

    Args:
        width: Length of the last axis.
        heads: Of the queries; a multiple of `kv_heads`.
        kv_heads: Of keys and values.
        head_width: Length of a head; `width / heads` by default.
        rope: What turns queries and keys by their positions; may be shared by several layers.
        is_causal: Whether a position sees none after it.
        has_bias: Whether the projections have a bias.
        dropout: Share of the output to drop in training.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        `(batch, positions, width) -> (batch, positions, width)`

    Reference:
        Ainslie et al. 2023, arXiv:2305.13245.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        *,
        head_width: int | None = None,
        rope: RotaryEmbedding | None = None,
        is_causal: bool = True,
        has_bias: bool = False,
        dropout: float = 0.0,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, width=width, heads=heads, kv_heads=kv_heads)
        if heads % kv_heads:
            raise ValueError(f"GroupedQueryAttention expects heads divisible by kv_heads, got {heads} and {kv_heads}")
        if head_width is None and width % heads:
            raise ValueError(f"GroupedQueryAttention expects width divisible by heads, got {width} and {heads}")
        self.width, self.heads, self.kv_heads, self.is_causal = width, heads, kv_heads, is_causal
        self.head_width = width // heads if head_width is None else head_width
        of_q, of_k, of_v, of_out = keys_for(key, 4)
        inner, shared = heads * self.head_width, kv_heads * self.head_width
        self.q_proj = Dense(width, inner, has_bias=has_bias, key=of_q, dtype=dtype)
        self.k_proj = Dense(width, shared, has_bias=has_bias, key=of_k, dtype=dtype)
        self.v_proj = Dense(width, shared, has_bias=has_bias, key=of_v, dtype=dtype)
        self.out_proj = Dense(inner, width, has_bias=has_bias, key=of_out, dtype=dtype)
        self.rope = rope
        self.dropout: Dropout | None = Dropout(dropout) if dropout else None

    def construct(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """What each position gathered; where a bool `mask` `(..., positions, positions)` is False it may not look."""
        if x.ndim != 3 or x.shape[-1] != self.width:
            raise ShapeError(f"GroupedQueryAttention expects input (batch, positions, {self.width}), got {x.shape}")
        q, k = self._by_head(self.q_proj(x), self.heads), self._by_head(self.k_proj(x), self.kv_heads)
        v = self._by_head(self.v_proj(x), self.kv_heads)
        if self.rope is not None:
            q, k = self.rope(q), self.rope(k)
        gathered = scaled_dot_product_attention(q, self._shared(k), self._shared(v), mask=mask, causal=self.is_causal)
        y: Tensor = self.out_proj(gathered.swapaxes(1, 2).reshape(*x.shape[:2], self.heads * self.head_width))
        return y if self.dropout is None else self.dropout(y)

    def _by_head(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(*x.shape[:2], heads, self.head_width).swapaxes(1, 2)

    def _shared(self, x: Tensor) -> Tensor:
        """Each head of keys or values as often as queries share it."""
        times = self.heads // self.kv_heads
        if times == 1:
            return x
        batch, heads, positions, features = x.shape
        repeated = broadcast_to(x.reshape(batch, heads, 1, positions, features), (batch, heads, times, *x.shape[2:]))
        return repeated.reshape(batch, self.heads, positions, features)

    def describe(self) -> str:
        """Width and heads."""
        return f"{self.width}, heads={self.heads}, kv_heads={self.kv_heads}"
