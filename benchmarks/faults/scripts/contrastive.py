"""Two views of an image that must find each other among all others, on PyTorch: InfoNCE with a learned temperature."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..table import script
from .torch_script import DigitsScript


class TwoViews(nn.Module):
    """An encoder, a projection to the sphere, and the logarithm of the inverse temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.projection = nn.Linear(64, 32)
        self.sharpness = nn.Parameter(torch.tensor(math.log(5.0)))

    def forward(self, pixels: Any) -> Any:
        """`(n, 32)` of length one."""
        return functional.normalize(self.projection(self.encoder(pixels)), dim=-1)


@script("contrastive")
class Contrastive(DigitsScript):
    """Noise makes the views: AdamW, batches of 128.

    Reference:
        Oord et al. 2018, arXiv:1807.03748, eq. 4; the learned temperature: Radford et al. 2021, arXiv:2103.00020.
    """

    rate = 1e-3
    steps = 80
    batch_size = 128

    def build(self) -> Any:
        """The network."""
        return TwoViews()

    def inputs(self, images: Any) -> Any:
        """`(n, 64)`."""
        return super().inputs(images).reshape(len(images), -1)

    def make_optimizer(self, model: Any) -> Any:
        """AdamW over everything."""
        return torch.optim.AdamW(model.parameters(), lr=self.rate)

    def loss(self, model: Any, pixels: Any, _labels: Any) -> Any:
        """Cross entropy of who belongs to whom, both ways."""
        one, other = (model(pixels + 0.3 * torch.randn_like(pixels)) for _ in range(2))
        logits, own = one @ other.T * model.sharpness.exp(), torch.arange(len(pixels))
        return 0.5 * (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own))
