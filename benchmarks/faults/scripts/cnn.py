"""The convolutional network on digits, on PyTorch, with batch norm, dropout and an evaluation in the loop."""

from typing import Any

import torch
from torch import nn

from ..table import script
from .torch_script import DigitsScript


class ConvNet(nn.Module):
    """Two convolutions with batch norm, a hidden layer with dropout, a head.

    Shape:
        `(batch, 1, 8, 8) -> (batch, 10)`
    """

    def __init__(self, *, dropout: float = 0.25) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        self.conv2, self.bn2, self.act2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()
        self.pool, self.flatten = nn.MaxPool2d(2), nn.Flatten()
        self.hidden, self.act3, self.dropout = nn.Linear(128, 64), nn.ReLU(), nn.Dropout(dropout)
        self.head = nn.Linear(64, 10)

    def features(self, images: Any) -> Any:
        """`(batch, 128)` of the convolutions."""
        x = self.pool(self.act1(self.bn1(self.conv1(images))))
        return self.flatten(self.pool(self.act2(self.bn2(self.conv2(x)))))

    def forward(self, images: Any) -> Any:
        """The logits."""
        return self.head(self.dropout(self.act3(self.hidden(self.features(images)))))


@script("cnn")
class Cnn(DigitsScript):
    """Convolutions with batch norm and dropout, SGD with momentum on a cosine, evaluated every ten steps."""

    evaluates_every = 10
    rate = 0.05

    def build(self) -> Any:
        """The network."""
        return ConvNet()

    def make_optimizer(self, model: Any) -> Any:
        """SGD with momentum and a little decay."""
        return torch.optim.SGD(model.parameters(), lr=self.rate, momentum=0.9, weight_decay=5e-4)

    def make_schedule(self, optimizer: Any) -> Any:
        """A cosine over the run."""
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.steps)
