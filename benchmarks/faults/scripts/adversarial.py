"""Two networks that are trained against each other on points of a ring, on PyTorch: two optimizers, two losses."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ..script import Batch
from ..table import script
from .torch_script import TorchScript

NOISE, WIDTH = 8, 64


def _network(inputs: int, outputs: int) -> nn.Sequential:
    layers = [nn.Linear(inputs, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(WIDTH, outputs))


@script("adversarial")
class Adversarial(TorchScript):
    """A generator and a judge, Adam for each, one step of the judge and one of the generator.

    Reference:
        Goodfellow et al. 2014, arXiv:1406.2661, algorithm 1, with the loss of its section 3 that does not saturate.
    """

    rate = 2e-4
    batch_size = 64

    def build(self) -> Any:
        """Both networks, in one container."""
        return nn.ModuleDict({"generator": _network(NOISE, 2), "judge": _network(2, 1)})

    def make_optimizer(self, model: Any) -> Any:
        """The judge's, and the generator's."""
        return [torch.optim.Adam(model[name].parameters(), self.rate, betas=(0.5, 0.999)) for name in model][::-1]

    def make_batches(self) -> Iterator[Batch]:
        """Points of a noisy ring."""
        generator = np.random.default_rng(self.seed)
        while True:
            angle = generator.uniform(0.0, 2.0 * math.pi, (self.batch_size, 1))
            ring = np.concatenate([np.cos(angle), np.sin(angle)], 1) + generator.normal(0.0, 0.05, (self.batch_size, 2))
            yield (ring.astype(np.float32),)

    def judge(self, points: Any) -> Any:
        """`(n, 1)` logits: how much the points look like the ring."""
        return self.model["judge"](points)

    def fool(self, fake: Any) -> Any:
        """The generator's loss."""
        return functional.binary_cross_entropy_with_logits(self.judge(fake), torch.ones(len(fake), 1))

    def train_step(self) -> float:
        """The judge's loss of one more step of both."""
        (real,) = self.tensors(next(self.batches))
        ours, theirs = self.optimizer
        fake = self.model["generator"](torch.randn(len(real), NOISE))
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(real), 1)])
        loss = functional.binary_cross_entropy_with_logits(self.judge(torch.cat([real, fake.detach()])), truth)
        ours.zero_grad()
        loss.backward()
        ours.step()
        theirs.zero_grad()
        self.fool(fake).backward()
        theirs.step()
        return self.number(loss)
