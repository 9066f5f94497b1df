"""An autoencoder of digits with a narrow middle, on PyTorch: a regression."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..table import script
from .torch_script import DigitsScript


class Autoencoder(nn.Module):
    """64 pixels, 12 numbers, 64 pixels.

    Shape:
        `(batch, 64) -> (batch, 64)`
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 12))
        self.decoder = nn.Sequential(nn.Tanh(), nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64))

    def forward(self, pixels: Any) -> Any:
        """The pixels again."""
        return self.decoder(self.encoder(pixels))


@script("autoencoder")
class AutoencoderScript(DigitsScript):
    """Squared error, RMSprop, evaluated every ten steps."""

    evaluates_every = 10
    rate = 1e-3

    def build(self) -> Any:
        """The network."""
        return Autoencoder()

    def inputs(self, images: Any) -> Any:
        """`(n, 64)`."""
        return super().inputs(images).reshape(len(images), -1)

    def loss(self, model: Any, pixels: Any, _labels: Any) -> Any:
        """Mean squared error."""
        return functional.mse_loss(model(pixels), pixels)

    def make_optimizer(self, model: Any) -> Any:
        """RMSprop."""
        return torch.optim.RMSprop(model.parameters(), lr=self.rate)

    def evaluate(self) -> dict[str, float]:
        """The same error on digits that are not trained on."""
        pixels, labels = self.tensors(
            (self.evaluation_inputs(self.data().held_out_images), self.data().held_out_labels)
        )
        self.model.eval()
        with torch.no_grad():
            loss = self.loss(self.model, pixels, labels)
        self.model.train()
        return {"validation/loss": float(loss)}
