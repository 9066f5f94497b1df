"""The three scripts on mindscope's own engine: an MLP, a convolutional network and a decoder."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from mindscope.cli.demo.demo_data import digits, manual, shuffled_batches, windows
from mindscope.cli.demo.demo_models import ByteTransformer, DigitsCNN
from mindscope.framework import Key, Tensor, nn, ops, set_seed

from ..script import Batch, Script
from ..table import script


class EngineScript(Script):
    """A script on the engine."""

    framework = "engine"
    rate = 1e-3

    def begin(self) -> None:
        """Nothing; the engine's generator is seeded."""
        set_seed(self.seed)

    def tensors(self, batch: Batch) -> Batch:
        """The arrays as tensors."""
        return tuple(Tensor(np.ascontiguousarray(one)) for one in batch)

    def number(self, loss: Any) -> float:
        """The loss."""
        return float(loss.asnumpy())

    def make_optimizer(self, model: Any) -> Any:
        """AdamW over what wants gradients."""
        return nn.AdamW(model.trainable_params(), self.rate)

    def loss(self, model: Any, inputs: Any, labels: Any) -> Any:
        """Mean cross entropy."""
        logits = model(inputs)
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    def inputs(self, images: Any) -> Any:
        """What the model is given: pixels around zero."""
        return (images.astype(np.float32) - 0.3) / np.float32(0.38)

    def make_batches(self) -> Iterator[Batch]:
        """Digits, every epoch in a new order."""
        data = digits(self.seed)
        for images, labels in shuffled_batches(data.images, data.labels, 64, self.seed):
            yield self.inputs(images), labels


class Mlp(nn.Cell):
    """Four dense layers; a hook for what stands between them.

    Shape:
        `(batch, 64) -> (batch, 10)`
    """

    def __init__(self, seed: int, width: int = 128, activation: Any = nn.ReLU) -> None:
        super().__init__()
        keys = [Key(100 * seed + place) for place in range(4)]
        self.fc1, self.act1 = nn.Dense(64, width, key=keys[0]), activation()
        self.fc2, self.act2 = nn.Dense(width, width, key=keys[1]), activation()
        self.fc3, self.act3 = nn.Dense(width, width, key=keys[2]), activation()
        self.head = nn.Dense(width, 10, key=keys[3])

    def construct(self, pixels: Tensor) -> Tensor:
        """The logits."""
        x = self.act1(self.fc1(pixels))
        return self.head(self.act3(self.fc3(self.act2(self.fc2(x)))))


@script("engine-mlp")
class EngineMlp(EngineScript):
    """Dense layers with ReLU, AdamW, on the engine."""

    activation = nn.ReLU

    def build(self) -> Any:
        """The network."""
        return Mlp(self.seed, activation=self.activation).set_train()

    def inputs(self, images: Any) -> Any:
        """`(n, 64)`."""
        return super().inputs(images).reshape(len(images), -1)


@script("engine-cnn")
class EngineCnn(EngineScript):
    """Two convolutions and two dense layers, Adam, on the engine."""

    def build(self) -> Any:
        """The demo's network."""
        return DigitsCNN(seed=self.seed).set_train()

    def make_optimizer(self, model: Any) -> Any:
        """Adam."""
        return nn.Adam(model.trainable_params(), self.rate)


@script("engine-lm")
class EngineLanguageModel(EngineScript):
    """A decoder on the bytes of Python's manual, AdamW, on the engine."""

    def build(self) -> Any:
        """The demo's network, narrower."""
        model = ByteTransformer(width=64, heads=4, layers=2, context=32, vocab=128, seed=self.seed)
        return model.set_train()

    def make_batches(self) -> Iterator[Batch]:
        """Windows of the text and the same one byte later."""
        return windows(manual() & 127, 32, 8, self.seed)
