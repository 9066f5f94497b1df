"""Scripts that several processes train together over gloo: one with DistributedDataParallel, one by hand."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from mindscope.cli.demo.demo_data import shuffled_batches
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..script import Batch
from ..table import script
from .torch_script import DigitsScript


class Net(nn.Module):
    """Three dense layers, dropout between them.

    Shape:
        `(batch, 64) -> (batch, 10)`
    """

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act1, self.dropout = nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.1)
        self.fc2, self.act2, self.head = nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10)

    def forward(self, pixels: Any) -> Any:
        """The logits."""
        x = self.dropout(self.act1(self.fc1(pixels)))
        return self.head(self.act2(self.fc2(x)))


class RankScript(DigitsScript):
    """What both have in common: a shard of the digits for every rank, and one seed for all first weights."""

    world = 2
    steps = 80
    batch_size = 32
    rate = 1e-3

    def build(self) -> Any:
        """The network of this rank; from then on each rank draws dropout masks of its own."""
        model = self.wrap(Net())
        torch.manual_seed(self.dropout_seed())
        return model

    def dropout_seed(self) -> int:
        """Of the masks."""
        return 1000 * (self.seed + 1) + self.rank

    def wrap(self, net: Any) -> Any:
        """How the ranks come together."""
        return net

    def inputs(self, images: Any) -> Any:
        """`(n, 64)`."""
        return super().inputs(images).reshape(len(images), -1)

    def shard(self, indices: Any) -> Any:
        """Which of the digits this rank trains on."""
        return indices[self.rank :: self.world]

    def make_batches(self) -> Iterator[Batch]:
        """Batches of this rank's share."""
        data = self.data()
        mine = self.shard(np.arange(len(data.labels)))
        for images, labels in shuffled_batches(data.images[mine], data.labels[mine], self.batch_size, self.seed):
            yield self.inputs(images), labels

    def make_optimizer(self, model: Any) -> Any:
        """AdamW."""
        return torch.optim.AdamW(model.parameters(), lr=self.rate)


@script("ddp")
class Ddp(RankScript):
    """Two processes under DistributedDataParallel."""

    def wrap(self, net: Any) -> Any:
        """With torch's own wrapper."""
        return DistributedDataParallel(net)


@script("by-hand")
class ByHand(RankScript):
    """Three processes that average their gradients themselves, with all_reduce."""

    world = 3

    def wrap(self, net: Any) -> Any:
        """First weights from rank 0."""
        for tensor in net.state_dict().values():
            dist.broadcast(tensor, 0)
        return net

    def update(self, loss: Any) -> None:
        """One step with the mean gradient."""
        self.optimizer.zero_grad()
        loss.backward()
        self.reduce()
        self.optimizer.step()

    def reduce(self) -> None:
        """Every gradient becomes the mean over the ranks."""
        for parameter in self.reduced():
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.world

    def reduced(self) -> list[Any]:
        """What is reduced."""
        return list(self.model.parameters())


@script("ddp-4")
class DdpOfFour(Ddp):
    """Four processes under DistributedDataParallel."""

    world = 4
    steps = 60
