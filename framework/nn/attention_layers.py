"""Attention through several heads: self-attention, grouped queries, attention to another sequence, rotary positions."""

import math

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import (
    broadcast_to,
    concat,
    logical_not,
    logical_or,
    matmul,
    mean,
    scaled_dot_product_attention,
    softmax,
    split,
    where,
)
from ..random import Key
from ..tensor import Tensor
from .basic_layers import Dense, Dropout
from .cell import Cell
from .parameters import keys_for, positive


class RotaryEmbedding(Cell):
    """Pairs of features `(i, i + width / 2)` turned by `position * base ** (-2 i / width)`.

    The product of a query and a key so turned depends on their distance only. The tables of cosines and sines are no
    parameters: they are made again from the arguments.

    Args:
        width: Length of the last axis (of one head); even.
        max_positions: How many positions there are tables for.
        base: Of the wavelengths, which run from `2 pi` to `2 pi base`.

    Shape:
        `(..., positions, width)`, and the same.

    Reference:
        Su et al. 2021, arXiv:2104.09864, eq. 34, with halves instead of neighbours paired, as GPT-NeoX does.
    """

    def __init__(self, width: int, max_positions: int = 2048, base: float = 10000.0) -> None:
        super().__init__()
        positive(self, width=width, max_positions=max_positions)
        if width % 2:
            raise ValueError(f"RotaryEmbedding expects an even width, got {width}")
        if not base > 0.0:
            raise ValueError(f"RotaryEmbedding expects base above 0, got {base}")
        self.width, self.max_positions, self.base = width, max_positions, float(base)
        angles = np.outer(np.arange(max_positions), base ** (-np.arange(0, width, 2) / width))
        self._cosines, self._sines = Tensor(np.cos(angles)), Tensor(np.sin(angles))

    def construct(self, x: Tensor, offset: int = 0) -> Tensor:
        """Return the turned features; the first position is number `offset`."""
        if x.ndim < 2 or x.shape[-1] != self.width:
            raise ShapeError(f"RotaryEmbedding expects input (..., positions, {self.width}), got {x.shape}")
        end = offset + x.shape[-2]
        if offset < 0 or end > self.max_positions:
            raise ShapeError(
                f"RotaryEmbedding has tables for {self.max_positions} positions, got {offset} to {end}; "
                f"give a larger max_positions"
            )
        cosines, sines = (table[offset:end].astype(x.dtype) for table in (self._cosines, self._sines))
        first, second = split(x, self.width // 2, -1)
        return concat([first * cosines - second * sines, second * cosines + first * sines], -1)

    def describe(self) -> str:
        """Return width and tables."""
        return f"{self.width}, max_positions={self.max_positions}"


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
        """Return what each position gathered."""
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
        """Return width and heads."""
        return f"{self.width}, heads={self.heads}" + (", is_causal=False" if not self.is_causal else "")

    q_proj: Dense
    k_proj: Dense
    v_proj: Dense
    qkv_proj: Dense
    out_proj: Dense


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
        """Return what each position gathered; where a bool `mask` `(..., positions, positions)` is False it may not
        look."""
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
        """Return each head of keys or values as often as queries share it."""
        times = self.heads // self.kv_heads
        if times == 1:
            return x
        batch, heads, positions, features = x.shape
        repeated = broadcast_to(x.reshape(batch, heads, 1, positions, features), (batch, heads, times, *x.shape[2:]))
        return repeated.reshape(batch, self.heads, positions, features)

    def describe(self) -> str:
        """Return width and heads."""
        return f"{self.width}, heads={self.heads}, kv_heads={self.kv_heads}"


class MultiheadAttention(Cell):
    """Every query gathers the values whose keys match it, through several heads.

    Args:
        embed_dim: Length of the last axis of queries and output; a multiple of `num_heads`.
        num_heads: How many.
        dropout: Share of the weights to drop in training.
        has_bias: Whether the projections have a bias.
        kdim: Length of the last axis of the keys; `embed_dim` by default.
        vdim: Of the values; `embed_dim` by default.
        batch_first: Whether the batch is the first axis and not the second; MindSpore's default is the second.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        query `(targets, batch, embed_dim)`, key `(sources, batch, kdim)`, value `(sources, batch, vdim)`; batch and
        positions exchanged with `batch_first`. Returns the gathered `(targets, batch, embed_dim)` and the weights.

    Reference:
        Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        has_bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention expects embed_dim divisible by num_heads, got {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        of_q, of_k, of_v, of_out = keys_for(key, 4)
        self.q_proj = Dense(embed_dim, embed_dim, has_bias=has_bias, key=of_q, dtype=dtype)
        self.k_proj = Dense(kdim or embed_dim, embed_dim, has_bias=has_bias, key=of_k, dtype=dtype)
        self.v_proj = Dense(vdim or embed_dim, embed_dim, has_bias=has_bias, key=of_v, dtype=dtype)
        self.out_proj = Dense(embed_dim, embed_dim, has_bias=has_bias, key=of_out, dtype=dtype)
        self.dropout: Dropout | None = Dropout(dropout) if dropout else None

    def construct(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what each query gathered, and the weights it did it with.

        Args:
            query: What looks.
            key: What is looked at.
            value: What is gathered.
            key_padding_mask: Bool `(batch, sources)`, True where a source must not be looked at.
            need_weights: Whether the weights are returned; without them a fused path may be taken.
            attn_mask: `(targets, sources)` or `(batch * num_heads, targets, sources)`: bool, True where a target must
                not look, or numbers to add to the scores.
            average_attn_weights: Whether the weights are the mean over heads `(batch, targets, sources)` or those of
                each `(batch, num_heads, targets, sources)`.
            is_causal: Whether a target sees no source after it.
        """
        self._check(query, key, value)
        q, k, v = (
            self._by_head(project(x)) for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        hidden, bias = self._masks(q, k, key_padding_mask, attn_mask)
        weights: Tensor | None = None
        if need_weights or bias is not None or (self.dropout is not None and self.training):
            weights = self._weights(q, k, hidden, bias, is_causal)
            gathered = matmul(weights if self.dropout is None else self.dropout(weights), v)
        else:
            mask = None if hidden is None else logical_not(hidden)
            gathered = scaled_dot_product_attention(q, k, v, mask=mask, causal=is_causal)
        joined = gathered.transpose(0, 2, 1, 3) if self.batch_first else gathered.transpose(2, 0, 1, 3)
        y: Tensor = self.out_proj(joined.reshape(query.shape))
        if not need_weights or weights is None:
            return y, None
        return y, mean(weights, 1) if average_attn_weights else weights

    def _weights(self, q: Tensor, k: Tensor, hidden: Tensor | None, bias: Tensor | None, is_causal: bool) -> Tensor:
        scores = matmul(q * (1.0 / math.sqrt(q.shape[-1])), k.swapaxes(-1, -2))
        if bias is not None:
            scores = scores + bias
        if is_causal:
            later = Tensor(np.triu(np.ones((q.shape[-2], k.shape[-2]), np.bool_), k.shape[-2] - q.shape[-2] + 1))
            hidden = later if hidden is None else logical_or(hidden, later)
        return softmax(scores if hidden is None else where(hidden, -math.inf, scores), -1)

    def _masks(
        self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return where one may not look, and what is added to the scores; each broadcasts to the scores."""
        batch, heads, targets, _ = q.shape
        sources = k.shape[-2]
        hidden: Tensor | None = None
        bias: Tensor | None = None
        if attn_mask is not None:
            shapes = ((targets, sources), (batch * heads, targets, sources))
            if attn_mask.shape not in shapes:
                raise ShapeError(
                    f"MultiheadAttention expects attn_mask of {shapes[0]} or {shapes[1]}, got {attn_mask.shape}"
                )
            by_head = attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(batch, heads, targets, sources)
            hidden, bias = (by_head, None) if attn_mask.dtype == np.bool_ else (None, by_head)
        if key_padding_mask is not None:
            if key_padding_mask.shape != (batch, sources) or key_padding_mask.dtype != np.bool_:
                raise ShapeError(
                    f"MultiheadAttention expects key_padding_mask to be bool of {(batch, sources)}, "
                    f"got {key_padding_mask.dtype} of {key_padding_mask.shape}"
                )
            padded = key_padding_mask.reshape(batch, 1, 1, sources)
            hidden = padded if hidden is None else logical_or(hidden, padded)
        return hidden, bias

    def _by_head(self, x: Tensor) -> Tensor:
        apart = x.reshape(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
        return apart.transpose(0, 2, 1, 3) if self.batch_first else apart.transpose(1, 2, 0, 3)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        batch, places = (0, 1) if self.batch_first else (1, 0)
        widths = (self.embed_dim, self.k_proj.in_channels, self.v_proj.in_channels)
        given = (query, key, value)
        is_right = all(x.ndim == 3 and x.shape[-1] == width for x, width in zip(given, widths, strict=True))
        is_one = is_right and len({x.shape[batch] for x in given}) == 1 and key.shape[places] == value.shape[places]
        if not is_one:
            axes = "batch, positions" if self.batch_first else "positions, batch"
            raise ShapeError(
                f"MultiheadAttention expects query, key and value ({axes}, width) of widths {widths}, one batch, and "
                f"as many keys as values, got {query.shape}, {key.shape} and {value.shape}"
            )

    def describe(self) -> str:
        """Return width and heads."""
        return f"{self.embed_dim}, {self.num_heads}" + (", batch_first=True" if self.batch_first else "")
