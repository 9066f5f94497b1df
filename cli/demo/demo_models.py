"""The two networks of the demo, small enough for a laptop."""

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from ...framework import Key, Tensor
from ...framework.errors import ShapeError
from ...framework.nn import (
    Cell,
    CellList,
    Conv2d,
    Dense,
    Embedding,
    Flatten,
    LayerNorm,
    MaxPool2d,
    ReLU,
    TransformerBlock,
)
from ...framework.random import split


class DigitsCNN(Cell):
    """Two convolutions and two dense layers for images of 8 x 8 pixels.

    Sites: `conv1, act1, pool1, conv2, act2, pool2, flatten, hidden, act3, head`.

    Args:
        classes: Length of the output.
        channels: Channels of the first convolution; the second has twice as many.
        hidden: Width of the hidden dense layer.
        seed: Seed of the initial weights.
        dtype: Dtype of the parameters.

    Shape:
        `(batch, 1, 8, 8) -> (batch, classes)`
    """

    def __init__(
        self,
        classes: int = 10,
        channels: int = 16,
        hidden: int = 64,
        *,
        seed: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        of_conv1, of_conv2, of_hidden, of_head = split(Key(seed), 4)
        self.conv1 = Conv2d(1, channels, 3, key=of_conv1, dtype=dtype)
        self.act1 = ReLU()
        self.pool1 = MaxPool2d(2)
        self.conv2 = Conv2d(channels, 2 * channels, 3, key=of_conv2, dtype=dtype)
        self.act2 = ReLU()
        self.pool2 = MaxPool2d(2)
        self.flatten = Flatten()
        self.hidden = Dense(2 * channels * 4, hidden, key=of_hidden, dtype=dtype)
        self.act3 = ReLU()
        self.head = Dense(hidden, classes, key=of_head, dtype=dtype)

    def construct(self, images: Tensor) -> Tensor:
        """Return the logits of the classes."""
        x = self.pool1(self.act1(self.conv1(images)))
        x = self.pool2(self.act2(self.conv2(x)))
        logits: Tensor = self.head(self.act3(self.hidden(self.flatten(x))))
        return logits


class ByteTransformer(Cell):
    """A decoder that predicts the next byte of a text at every position.

    Sites: `token, position, decoder.<n>.norm1, .attn.{q_proj, k_proj, v_proj, out_proj}, .norm2, .mlp.{up, act, down}`,
    `norm, head`.

    Args:
        width: Length of the features.
        heads: Heads of each attention; divides the width.
        layers: Number of decoder blocks.
        context: Largest number of positions.
        vocab: Number of symbols; 256 bytes.
        activation: Activation of the feed-forward parts: `gelu` or `relu`.
        seed: Seed of the initial weights.
        dtype: Dtype of the parameters.

    Shape:
        integers `(batch, positions) -> (batch, positions, vocab)`

    Reference:
        Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3.
    """

    def __init__(
        self,
        width: int = 128,
        heads: int = 4,
        layers: int = 4,
        context: int = 128,
        vocab: int = 256,
        activation: Literal["gelu", "relu"] = "gelu",
        *,
        seed: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        of_token, of_position, of_head, *of_blocks = split(Key(seed), 3 + layers)
        self.context = context
        self.token = Embedding(vocab, width, key=of_token, dtype=dtype)
        self.position = Embedding(context, width, key=of_position, dtype=dtype)
        self.decoder = CellList(
            TransformerBlock(width, heads, activation=activation, key=of_block, dtype=dtype) for of_block in of_blocks
        )
        self.norm = LayerNorm(width, dtype=dtype)
        self.head = Dense(width, vocab, has_bias=False, key=of_head, dtype=dtype)

    def construct(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next symbol at every position."""
        if tokens.ndim != 2 or tokens.shape[1] > self.context:
            raise ShapeError(f"ByteTransformer expects tokens (batch, up to {self.context}), got {tokens.shape}")
        x = self.token(tokens) + self.position(Tensor(np.arange(tokens.shape[1])))
        for block in self.decoder:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits
