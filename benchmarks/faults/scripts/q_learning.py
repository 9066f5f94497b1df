"""Q-learning with a replay memory and a target network, on PyTorch: the data are what the model's own acts brought."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ..script import Batch
from ..table import script
from .torch_script import TorchScript

PLACES, ACTS, PATIENCE = 10, 4, 40
Turn = tuple[int, int, float, int, float]


@script("q-learning")
class QLearning(TorchScript):
    """A walk along ten places, rewarded at the last: Adam, four acts a step, the target copied every 25 steps.

    Reference:
        Mnih et al. 2015, "Human-level control through deep reinforcement learning", algorithm 1.
    """

    rate = 1e-3
    steps = 200
    batch_size = 64
    copied_every = 25
    discount = 0.95

    def build(self) -> Any:
        """Values of both directions at a place."""
        return nn.Sequential(nn.Linear(PLACES, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def make_optimizer(self, model: Any) -> Any:
        """Adam; the target starts as a copy."""
        self.target = deepcopy(model).requires_grad_(False)
        return torch.optim.Adam(model.parameters(), lr=self.rate)

    def make_batches(self) -> Iterator[Batch]:
        """Turns drawn from the memory, after a few more acts."""
        generator, memory = np.random.default_rng(self.seed), list[Turn]()
        place, age = 0, 0
        while True:
            for _ in range(ACTS if memory else 16 * ACTS):
                place, age = self.act(memory, place, age, generator)
            drawn = [memory[at] for at in generator.integers(0, len(memory), self.batch_size)]
            places, acts, rewards, nexts, ends = (np.array(column) for column in zip(*drawn, strict=True))
            one_hot = np.eye(PLACES, dtype=np.float32)
            yield one_hot[places], acts, rewards.astype(np.float32), one_hot[nexts], ends.astype(np.float32)

    def act(self, memory: list[Turn], place: int, age: int, generator: np.random.Generator) -> tuple[int, int]:
        """Place and age of the walk after one more turn, which is remembered."""
        if generator.random() < max(0.1, 1.0 - self.step / 80):
            forward = int(generator.integers(0, 2))
        else:
            with torch.no_grad():
                forward = int(self.model(torch.eye(PLACES)[place : place + 1]).argmax())
        after = min(PLACES - 1, place + 1) if forward else max(0, place - 1)
        is_end = after == PLACES - 1
        memory.append((place, forward, float(is_end), after, float(is_end)))
        return (int(generator.integers(0, PLACES - 1)), 0) if is_end or age >= PATIENCE else (after, age + 1)

    def loss(self, model: Any, places: Any, acts: Any, rewards: Any, nexts: Any, ends: Any) -> Any:
        """Huber's loss of the values against what the target promises."""
        values = model(places).gather(1, acts[:, None])[:, 0]
        return functional.smooth_l1_loss(values, self.promised(rewards, nexts, ends))

    def promised(self, rewards: Any, nexts: Any, ends: Any) -> Any:
        """`(n,)` reward and discounted value of the next place."""
        with torch.no_grad():
            return rewards + self.discount * (1.0 - ends) * self.target(nexts).max(1).values

    def train_step(self) -> float:
        """The loss of one more step."""
        found = super().train_step()
        if self.step % self.copied_every == 0:
            self.target.load_state_dict(self.model.state_dict())
        return found
