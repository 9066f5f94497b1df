"""Attention of one sequence to another through several heads, with MindSpore's arguments."""

import math

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import logical_not, logical_or, matmul, mean, scaled_dot_product_attention, softmax, where
from ..random import Key
from ..tensor import Tensor
from .cell import Cell
from .dropout import Dropout
from .linear import Dense
from .parameters import keys_for, positive


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
        """What each query gathered, and the weights it did it with.

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
        """Where one may not look, and what is added to the scores; each broadcasts to the scores."""
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
        """Width and heads."""
        return f"{self.embed_dim}, {self.num_heads}" + (", batch_first=True" if self.batch_first else "")
