"""Transformer blocks: feed-forward parts, the decoder block of a language model, MindSpore's encoder and decoder."""

import copy
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ..ops import silu
from ..random import Key
from ..tensor import Tensor
from .activation_layers import GELU, ReLU, SiLU
from .attention_layers import GroupedQueryAttention, MultiheadAttention, MultiHeadSelfAttention, RotaryEmbedding
from .basic_layers import Dense, Dropout
from .cell import Cell
from .container import CellList
from .normalization_layers import LayerNorm, RMSNorm
from .parameters import keys_for, positive

Activation = Literal["gelu", "relu", "silu"]

_ACTIVATION_CELLS: dict[str, type[Cell]] = {"gelu": GELU, "relu": ReLU, "silu": SiLU}


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
        check_word(self, "activation", activation, _ACTIVATION_CELLS)
        of_up, of_down = keys_for(key, 2)
        size = 4 * width if hidden is None else hidden
        self.up = Dense(width, size, key=of_up, dtype=dtype)
        self.act = _ACTIVATION_CELLS[activation]()
        self.down = Dense(size, width, key=of_down, dtype=dtype)

    def construct(self, x: Tensor) -> Tensor:
        """Return the output, of the shape of the input."""
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
        """Return the output, of the shape of the input."""
        y: Tensor = self.down(silu(self.gate(x)) * self.up(x))
        return y


def check_word(cell: Cell, what: str, word: str, known: dict[str, type]) -> None:
    """Check that the word is a known one.

    Raises:
        ValueError: It is not; the message names the cell's class, the argument and the known words.
    """
    if word not in known:
        raise ValueError(f"{type(cell).__name__} expects {what} to be one of {', '.join(known)}, got {word!r}")


BlockActivation = Literal["gelu", "relu", "silu", "swiglu"]
Norm = Literal["layer", "rms"]

_FEED_FORWARDS: dict[str, type[Cell]] = {
    "gelu": FeedForward,
    "relu": FeedForward,
    "silu": FeedForward,
    "swiglu": SwiGLU,
}
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
        activation: BlockActivation = "gelu",
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
        check_word(self, "activation", activation, _FEED_FORWARDS)
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
        """Return the output, of the shape of the input."""
        x = x + self.attn(self.norm1(x))
        y: Tensor = self.mlp(self.norm2(x))
        return x + (y if self.dropout is None else self.dropout(y))


_ENCODER_ACTIVATIONS: dict[str, type[Cell]] = {"relu": ReLU, "gelu": GELU}


class TransformerEncoderLayer(Cell):
    """Self-attention and a feed-forward part, each added to its input and normalized.

    Args:
        d_model: Length of the last axis.
        nhead: Of the attention.
        dim_feedforward: Between the two layers of the feed-forward part.
        dropout: Share to drop in training: of the weights, between the two layers, and of each part's output.
        activation: `relu` or `gelu` (exact).
        layer_norm_eps: Added to the variances.
        batch_first: Whether the batch is the first axis and not the second.
        norm_first: Whether each part normalizes its input and not its sum.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        `(positions, batch, d_model)`, and the same.

    Reference:
        Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        of_attention, of_feed = keys_for(key, 2)
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, key=of_attention, dtype=dtype
        )
        self.feed = _Feed(d_model, dim_feedforward, dropout, activation, of_feed, dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.dropout1 = Dropout(dropout)

    def construct(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Return the output, of the shape of the input; masks as in `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            gathered, _ = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask)
            kept: Tensor = self.dropout1(gathered)
            return kept

        x = _added(src, attend, self.norm1, self.norm_first)
        return _added(x, self.feed, self.norm2, self.norm_first)


class TransformerDecoderLayer(Cell):
    """Self-attention, attention to the encoder's output and a feed-forward part, each added and normalized.

    Args:
        d_model: Length of the last axis.
        nhead: Of the attentions.
        dim_feedforward: Between the two layers of the feed-forward part.
        dropout: Share to drop in training: of the weights, between the two layers, and of each part's output.
        activation: `relu` or `gelu` (exact).
        layer_norm_eps: Added to the variances.
        batch_first: Whether the batch is the first axis and not the second.
        norm_first: Whether each part normalizes its input and not its sum.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        `(positions, batch, d_model)` and a memory `(sources, batch, d_model) -> (positions, batch, d_model)`

    Reference:
        Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        of_own, of_memory, of_feed = keys_for(key, 3)
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, key=of_own, dtype=dtype)
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, key=of_memory, dtype=dtype
        )
        self.feed = _Feed(d_model, dim_feedforward, dropout, activation, of_feed, dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def construct(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the output, of the shape of `tgt`; masks as in `MultiheadAttention`."""

        def attend(x: Tensor) -> Tensor:
            gathered, _ = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask)
            kept: Tensor = self.dropout1(gathered)
            return kept

        def look(x: Tensor) -> Tensor:
            gathered, _ = self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask)
            kept: Tensor = self.dropout2(gathered)
            return kept

        x = _added(tgt, attend, self.norm1, self.norm_first)
        x = _added(x, look, self.norm2, self.norm_first)
        return _added(x, self.feed, self.norm3, self.norm_first)


class TransformerEncoder(Cell):
    """Encoder layers one after the other.

    Args:
        encoder_layer: A layer to copy, or a function that makes one: copies all begin with the same weights.
        num_layers: How many.
        norm: After the last of them.
    """

    def __init__(self, encoder_layer: Cell | Callable[[], Cell], num_layers: int, norm: Cell | None = None) -> None:
        super().__init__()
        positive(self, num_layers=num_layers)
        self.layers = _layers(encoder_layer, num_layers)
        self.norm = norm

    def construct(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Return the output, of the shape of the input."""
        for layer in self.layers:
            src = layer(src, src_mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Cell):
    """Decoder layers one after the other, all looking at one memory.

    Args:
        decoder_layer: A layer to copy, or a function that makes one: copies all begin with the same weights.
        num_layers: How many.
        norm: After the last of them.
    """

    def __init__(self, decoder_layer: Cell | Callable[[], Cell], num_layers: int, norm: Cell | None = None) -> None:
        super().__init__()
        positive(self, num_layers=num_layers)
        self.layers = _layers(decoder_layer, num_layers)
        self.norm = norm

    def construct(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the output, of the shape of `tgt`."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return tgt if self.norm is None else self.norm(tgt)


class _Feed(Cell):
    """`dropout(linear2(dropout(act(linear1(x)))))`."""

    def __init__(self, width: int, hidden: int, dropout: float, activation: str, key: Key, dtype: DTypeLike) -> None:
        super().__init__()
        check_word(self, "activation", activation, _ENCODER_ACTIVATIONS)
        first, second = keys_for(key, 2)
        self.linear1 = Dense(width, hidden, key=first, dtype=dtype)
        self.act = GELU(approximate=False) if activation == "gelu" else ReLU()
        self.linear2 = Dense(hidden, width, key=second, dtype=dtype)
        self.dropout, self.dropout_out = Dropout(dropout), Dropout(dropout)

    def construct(self, x: Tensor) -> Tensor:
        y: Tensor = self.dropout_out(self.linear2(self.dropout(self.act(self.linear1(x)))))
        return y


def _added(x: Tensor, part: Callable[[Tensor], Tensor], norm: LayerNorm, norm_first: bool) -> Tensor:
    y: Tensor = x + part(norm(x)) if norm_first else norm(x + part(x))
    return y


def _layers(layer: Cell | Callable[[], Cell], count: int) -> CellList:
    if isinstance(layer, Cell):
        return CellList(copy.deepcopy(layer) for _ in range(count))
    return CellList(layer() for _ in range(count))
