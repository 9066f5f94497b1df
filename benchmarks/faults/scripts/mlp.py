"""The MLP on digits, on PyTorch."""

from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from ..table import script
from .torch_script import DigitsScript

WIDTH = 128


@script("mlp")
class Mlp(DigitsScript):
    """Four dense layers with ReLU, AdamW at a constant rate."""

    rate = 1e-3

    def build(self) -> Any:
        """The network, its layers named."""
        return nn.Sequential(
            OrderedDict(
                fc1=nn.Linear(64, WIDTH),
                act1=self.activation(),
                fc2=nn.Linear(WIDTH, WIDTH),
                act2=self.activation(),
                fc3=nn.Linear(WIDTH, WIDTH),
                act3=self.activation(),
                head=nn.Linear(WIDTH, 10),
            )
        )

    def activation(self) -> Any:
        """What stands between the layers."""
        return nn.ReLU()

    def inputs(self, images: Any) -> Any:
        """`(n, 64)`."""
        return super().inputs(images).reshape(len(images), -1)

    def make_optimizer(self, model: Any) -> Any:
        """AdamW over everything."""
        return torch.optim.AdamW(model.parameters(), lr=self.rate)
