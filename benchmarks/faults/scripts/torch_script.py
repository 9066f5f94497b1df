"""What all PyTorch scripts have in common: seeds, tensors, and an evaluation without gradients."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from mindscope.cli.demo.demo_data import Digits, digits, shuffled_batches
from torch.nn import functional

from ..script import Batch, Script


class TorchScript(Script):
    """A script on PyTorch, on one thread."""

    def begin(self) -> None:
        """Nothing; the generator of torch is seeded."""
        torch.set_num_threads(1)
        torch.manual_seed(self.seed)

    def tensors(self, batch: Batch) -> Batch:
        """The arrays as tensors."""
        return tuple(torch.from_numpy(np.ascontiguousarray(one)) for one in batch)

    def number(self, loss: Any) -> float:
        """The loss."""
        return float(loss.detach())


class DigitsScript(TorchScript):
    """A classifier of 8 x 8 digits; a subclass says how the images are laid out."""

    batch_size = 64

    def data(self) -> Digits:
        """Images and labels, split."""
        return digits(self.seed)

    def inputs(self, images: Any) -> Any:
        """`(n, ...)` what the model is given: pixels around zero."""
        return (images.astype(np.float32) - 0.3) / 0.38

    def make_batches(self) -> Iterator[Batch]:
        """Every epoch in a new order."""
        data = self.data()
        for images, labels in shuffled_batches(data.images, data.labels, self.batch_size, self.seed):
            yield self.inputs(images), labels

    def loss(self, model: Any, inputs: Any, labels: Any) -> Any:
        """Cross entropy of the logits."""
        return functional.cross_entropy(model(inputs), labels)

    def evaluation_inputs(self, images: Any) -> Any:
        """What the model is given in the evaluation."""
        return self.inputs(images)

    def evaluate(self) -> dict[str, float]:
        """Loss and accuracy on digits that are not trained on."""
        data = self.data()
        inputs, labels = self.tensors((self.evaluation_inputs(data.held_out_images), data.held_out_labels))
        self.model.eval()
        with torch.no_grad():
            logits = self.model(inputs)
        self.model.train()
        right = (logits.argmax(-1) == labels).float().mean()
        return {"validation/loss": float(functional.cross_entropy(logits, labels)), "validation/accuracy": float(right)}
