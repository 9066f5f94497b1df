"""Self-attention with several heads."""

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import scaled_dot_product_attention, split
from ..random import Key
from ..tensor import Tensor
from .cell import Cell
from .dropout import Dropout
from .linear import Dense
from .parameters import keys_for, positive


class MultiHeadSelfAttention(Cell):
    """Every position looks at every other (or only at those before it) through several heads.

    Children: `q_proj`, `k_proj`, `v_proj` (or one `qkv_proj`), `out_proj`, and `dropout` when asked for.

    Args:
        width: Length of the last axis; a multiple of `heads`.
        heads: How many.
        is_causal: Whether a position sees none after it.
        is_fused: Whether queries, keys and values come from one projection, which is faster for small batches.
        has_bias: Whether the projections have a bias.
        dropout: Share of the output to drop in training.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        `(batch, positions, width) -> (batch, positions, width)`

    Reference:
        Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        is_causal: bool = True,
        is_fused: bool = False,
        has_bias: bool = True,
        dropout: float = 0.0,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, width=width, heads=heads)
        if width % heads:
            raise ValueError(f"MultiHeadSelfAttention expects width divisible by heads, got {width} and {heads}")
        self.width, self.heads, self.is_causal, self.is_fused = width, heads, is_causal, is_fused
        names = ("qkv_proj", "out_proj") if is_fused else ("q_proj", "k_proj", "v_proj", "out_proj")
        for name, of_name in zip(names, keys_for(key, len(names)), strict=True):
            size = 3 * width if name == "qkv_proj" else width
            self.insert_child_to_cell(name, Dense(width, size, has_bias=has_bias, key=of_name, dtype=dtype))
        self.dropout: Dropout | None = Dropout(dropout) if dropout else None

    def construct(self, x: Tensor) -> Tensor:
        """What each position gathered."""
        if x.ndim != 3 or x.shape[-1] != self.width:
            raise ShapeError(f"MultiHeadSelfAttention expects input (batch, positions, {self.width}), got {x.shape}")
        q, k, v = (self._by_head(part) for part in self._project(x))
        gathered: Tensor = scaled_dot_product_attention(q, k, v, causal=self.is_causal)
        y: Tensor = self.out_proj(gathered.swapaxes(1, 2).reshape(x.shape))
        return y if self.dropout is None else self.dropout(y)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        if self.is_fused:
            return split(self.qkv_proj(x), self.width, -1)
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def _by_head(self, x: Tensor) -> Tensor:
        batch, positions, width = x.shape
        return x.reshape(batch, positions, self.heads, width // self.heads).swapaxes(1, 2)

    def describe(self) -> str:
        """Width and heads."""
        return f"{self.width}, heads={self.heads}" + (", is_causal=False" if not self.is_causal else "")

    q_proj: Dense
    k_proj: Dense
    v_proj: Dense
    qkv_proj: Dense
    out_proj: Dense
