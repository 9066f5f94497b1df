"""A recurrent network that names the next symbol of a text, on PyTorch."""

from typing import Any, ClassVar

import torch
from torch import nn

from ..table import script
from .lm import VOCABULARY, LanguageModel


class Recurrent(nn.Module):
    """Embedding, a recurrent layer, a head.

    Shape:
        integers `(batch, positions) -> (batch, positions, vocabulary)`
    """

    def __init__(self, cell: type[nn.Module] = nn.GRU) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 48)
        self.recurrent = cell(48, 96, batch_first=True)
        self.head = nn.Linear(96, VOCABULARY)

    def forward(self, tokens: Any) -> Any:
        """Logits at every position."""
        return self.head(self.recurrent(self.tokens(tokens))[0])


@script("gru")
class Gru(LanguageModel):
    """A GRU on text, Adam at a constant rate, gradients clipped at 1."""

    rate = 3e-3
    config: ClassVar = {"causality": True}

    def build(self) -> Any:
        """The network."""
        return Recurrent()

    def make_optimizer(self, model: Any) -> Any:
        """Adam."""
        return torch.optim.Adam(model.parameters(), lr=self.rate)

    def make_schedule(self, optimizer: Any) -> Any:
        """None: the rate stays."""
        return None
