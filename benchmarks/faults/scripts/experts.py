"""A feed-forward part of several experts, of which a router chooses two for every token."""

from typing import Any

import torch
from torch import nn


class Experts(nn.Module):
    """Top-2 of the experts, weighted by the router's probabilities; remembers the loss that balances them.

    Shape:
        `(batch, positions, width)` to the same.

    Reference:
        Shazeer et al. 2017, arXiv:1701.06538, section 2.1 (noise); Fedus et al. 2022, arXiv:2101.03961, section 2.2.
    """

    top_k = 2

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )
        self.balance: Any = None
        self.noise = 0.5

    def forward(self, x: Any) -> Any:
        """The mixture."""
        flat = x.flatten(0, -2)
        probabilities = self.router(flat).softmax(-1)
        weights, chosen = (self.choose(probabilities) if self.training else probabilities).topk(self.top_k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            tokens, place = (chosen == number).nonzero(as_tuple=True)
            if len(tokens):
                mixed = mixed.index_add(0, tokens, weights[tokens, place, None] * expert(flat[tokens]))
        load = torch.zeros_like(probabilities).scatter(-1, chosen, 1.0).mean(0) / self.top_k
        self.balance = len(self.experts) * (load.detach() * probabilities.mean(0)).sum()
        return mixed.view_as(x)

    def choose(self, probabilities: Any) -> Any:
        """What the largest are taken from: with noise while training, so that no expert is shut out for good."""
        return (probabilities.log() + torch.randn_like(probabilities) * self.noise).softmax(-1)
