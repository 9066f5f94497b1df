"""Transformers of encoder and decoder, with MindSpore's names, arguments and order of parts."""

import copy
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from ..random import Key
from ..tensor import Tensor
from .activation import GELU, ReLU
from .cell import Cell
from .container import CellList
from .dropout import Dropout
from .feed_forward import check_word
from .linear import Dense
from .multihead import MultiheadAttention
from .norm import LayerNorm
from .parameters import keys_for, positive

_ACTIVATIONS: dict[str, type[Cell]] = {"relu": ReLU, "gelu": GELU}


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
        """The output, of the shape of the input; masks as in `MultiheadAttention`."""

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
        """The output, of the shape of `tgt`; masks as in `MultiheadAttention`."""

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
        """The output, of the shape of the input."""
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
        """The output, of the shape of `tgt`."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return tgt if self.norm is None else self.norm(tgt)


class _Feed(Cell):
    """`dropout(linear2(dropout(act(linear1(x)))))`."""

    def __init__(self, width: int, hidden: int, dropout: float, activation: str, key: Key, dtype: DTypeLike) -> None:
        super().__init__()
        check_word(self, "activation", activation, _ACTIVATIONS)
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
