"""Small networks for digits that are trained in a second or two, once a process, beside the stored ones."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ..attacks.digits import images, torch_model


@cache
def stored(name: str) -> nn.Module:
    """Return the stored network `plain`, `robust` or `mlp`."""
    model: nn.Module = torch_model(name)
    return model


class Cosine(nn.Module):
    """Logits are cosines between features and class vectors, from -1 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        self.classes = nn.Parameter(torch.randn(10, 64) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        return functional.normalize(self.features(x)) @ functional.normalize(self.classes).T


class TopUnits(nn.Module):
    """Only the largest tenth of the units of a layer stay: what stays jumps from point to point (k-WTA)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        least = x.topk(max(x.shape[1] // 10, 1), dim=1).values[:, -1:]
        return x * (x >= least)


class BatchStatistics(nn.Module):
    """Units normalised by the batch that they are in, in every mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        return (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 0.1)


class Dropped(nn.Module):
    """Dropout that evaluation mode does not switch off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits or the units."""
        return functional.dropout(x, 0.3, training=True)


def perceptron(activation: Callable[[], nn.Module] = nn.ReLU, *more: nn.Module, classes: int = 10) -> nn.Module:
    """Return a network with one hidden layer of 96 units, with more layers behind it."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 96), activation(), *more, nn.Linear(96, classes))


def _smooth_loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, y, label_smoothing=0.2)


def _cosine_loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(10 * logits, y)


#: By name: how it is made, its loss and weight decay.
_TRAINED: dict[str, tuple[Callable[[], nn.Module], Any, float]] = {
    "linear": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), functional.cross_entropy, 0.0),
    "smoothed labels": (perceptron, _smooth_loss, 0.0),
    "decayed weights": (perceptron, functional.cross_entropy, 0.02),
    "two classes": (lambda: perceptron(classes=2), functional.cross_entropy, 0.0),
    "batch norm": (lambda: perceptron(nn.ReLU, nn.BatchNorm1d(96)), functional.cross_entropy, 0.0),
    "dropout": (lambda: perceptron(nn.ReLU, nn.Dropout(0.3)), functional.cross_entropy, 0.0),
    "dropout always": (lambda: perceptron(nn.ReLU, Dropped()), functional.cross_entropy, 0.0),
    "tanh": (lambda: perceptron(nn.Tanh), functional.cross_entropy, 0.0),
    "cosine": (Cosine, _cosine_loss, 0.0),
    "top units": (lambda: perceptron(TopUnits), functional.cross_entropy, 0.0),
    "batch statistics": (lambda: perceptron(nn.ReLU, BatchStatistics()), functional.cross_entropy, 0.0),
}


def labels_of(name: str, y: np.ndarray) -> np.ndarray:
    """Return the digits as the classes of that network: even and odd for the one with two."""
    return y % 2 if name == "two classes" else y


@cache
def trained(name: str) -> nn.Module:
    """Return the network of that name in evaluation mode, trained for 30 epochs at its first call."""
    make, loss_of, decay = _TRAINED[name]
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = make().train()
        pixels, digits = images(training=True)
        x, y = torch.from_numpy(pixels), torch.from_numpy(labels_of(name, digits))
        optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=decay / 3e-3 * 0.1)
        for _ in range(30):
            for rows in torch.randperm(len(x)).split(128):
                optimizer.zero_grad()
                loss_of(model(x[rows]), y[rows]).backward()
                optimizer.step()
    return model.eval().requires_grad_(False)
