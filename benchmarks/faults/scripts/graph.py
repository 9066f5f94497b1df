"""A graph convolution over one graph, on PyTorch: all nodes at once, a fifth of them labelled, ReLU as a function."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ..script import Batch
from ..table import script
from .torch_script import TorchScript

NODES, FEATURES, CLASSES, LABELLED = 400, 32, 4, 80


class GraphNet(nn.Module):
    """Two layers, each of which mixes what the neighbours are.

    Shape:
        `(nodes, nodes), (nodes, features) -> (nodes, classes)`

    Reference:
        Kipf and Welling 2017, arXiv:1609.02907, eq. 9.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(FEATURES, 16), nn.Linear(16, CLASSES)
        self.dropout = nn.Dropout(0.5)

    def forward(self, neighbours: Any, features: Any) -> Any:
        """Logits of every node."""
        hidden = functional.relu(self.hidden(neighbours @ self.dropout(features)))
        return self.head(neighbours @ self.dropout(hidden))


@script("graph")
class Graph(TorchScript):
    """Communities of a random graph: Adam, every step on all nodes, evaluated on those without a label."""

    rate = 1e-2
    steps = 100
    evaluates_every = 10

    def build(self) -> Any:
        """The network, and the graph that it is for."""
        generator = np.random.default_rng(self.seed)
        self.classes = generator.integers(0, CLASSES, NODES)
        together = self.classes[:, None] == self.classes[None]
        edges = np.triu(generator.random((NODES, NODES)) < np.where(together, 0.05, 0.005), 1)
        linked = edges + edges.T + np.eye(NODES)
        scale = linked.sum(1) ** -0.5
        self.neighbours = (scale[:, None] * linked * scale[None]).astype(np.float32)
        middles = generator.normal(0.0, 0.5, (CLASSES, FEATURES))
        self.features = (middles[self.classes] + generator.normal(0.0, 1.0, (NODES, FEATURES))).astype(np.float32)
        self.is_labelled = torch.zeros(NODES, dtype=torch.bool)
        self.is_labelled[torch.from_numpy(generator.permutation(NODES)[:LABELLED])] = True
        return GraphNet()

    def make_optimizer(self, model: Any) -> Any:
        """Adam with the paper's decay."""
        return torch.optim.Adam(model.parameters(), lr=self.rate, weight_decay=5e-4)

    def make_batches(self) -> Iterator[Batch]:
        """The whole graph, for ever."""
        while True:
            yield self.neighbours, self.features, self.classes

    def loss(self, model: Any, neighbours: Any, features: Any, classes: Any) -> Any:
        """Cross entropy of the labelled nodes."""
        return functional.cross_entropy(model(neighbours, features)[self.is_labelled], classes[self.is_labelled])

    def evaluate(self) -> dict[str, float]:
        """Loss on the other nodes."""
        neighbours, features, classes = self.tensors((self.neighbours, self.features, self.classes))
        self.model.eval()
        with torch.no_grad():
            logits = self.model(neighbours, features)
        self.model.train()
        return {
            "validation/loss": float(functional.cross_entropy(logits[~self.is_labelled], classes[~self.is_labelled]))
        }
