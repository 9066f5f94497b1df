"""A training of several ranks in the pieces that a person writes; an injected fault replaces one of them."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn

WIDTH, HIDDEN, CLASSES, BATCH = 16, 24, 4, 32


class Net(nn.Module):
    """Three dense layers with a normalisation.

    Shape:
        `(batch, 16) -> (batch, 4)`
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc1, self.norm, self.dropout = nn.Linear(WIDTH, HIDDEN), nn.LayerNorm(HIDDEN), nn.Dropout(dropout)
        self.fc2, self.head = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Any) -> Any:
        """The logits."""
        x = self.dropout(torch.relu(self.norm(self.fc1(x))))
        return self.head(torch.relu(self.fc2(x)))


class Training:
    """One training of `world` ranks.

    Attributes:
        model: What is watched.
        steps: Optimizer steps.
        rate: Of AdamW.
    """

    world: ClassVar[int] = 2
    steps: int = 36

    def __init__(self, rank: int, seed: int) -> None:
        self.rank, self.seed, self.step = rank, seed, 0
        self.rate, self.decay = 3e-3, 0.01
        self.model: Any = None
        self.optimizer: Any = None
        self.generator = torch.Generator()
        self._moments: dict[int, list[Callable[[], object]]] = {}
        teacher = torch.Generator().manual_seed(77)
        self.teacher = torch.randn(WIDTH, CLASSES, generator=teacher)

    # --- the pieces ---------------------------------------------------------------------------------------------

    def share(self) -> int:
        """The number of this rank among those that read different data."""
        return self.rank

    def build(self) -> Any:
        """The model; called with the same seed on every rank."""
        return Net()

    def prepare(self) -> None:
        """Seed what is drawn after the first weights."""
        self.generator.manual_seed(1000 * self.seed + self.share())
        torch.manual_seed(500 + self.rank)

    def make_optimizer(self) -> Any:
        """AdamW over all parameters."""
        return torch.optim.AdamW(self.model.parameters(), lr=self.rate, weight_decay=self.decay)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs `(32, 16)` and classes `(32,)` of this rank."""
        x = torch.randn(BATCH, WIDTH, generator=self.generator)
        return x, (x @ self.teacher).argmax(1)

    def backward(self) -> None:
        """Leave the local gradients of the step's batches in the parameters."""
        x, y = self.batch()
        self.loss(self.model(x), y).backward()

    def loss(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy."""
        return nn.functional.cross_entropy(logits, y)

    def reduce(self) -> None:
        """Combine the gradients of the ranks; a wrapper may have done so already."""

    def update(self) -> None:
        """Step the weights."""
        self.optimizer.step()

    def after_step(self) -> None:
        """Do what belongs to the step and follows it."""

    # --- what faults are made with ------------------------------------------------------------------------------

    def at(self, step: int, act: Callable[[], object]) -> None:
        """Let something happen right before that step."""
        self._moments.setdefault(step, []).append(act)

    def on(self, rank: int) -> bool:
        """Whether this is the rank at which the fault is."""
        return self.rank == rank

    def parameter(self, name: str) -> Any:
        """The parameter of that name, wrapped or not."""
        return next(one for key, one in self.model.named_parameters() if key.removeprefix("module.") == name)

    # --- the loop -----------------------------------------------------------------------------------------------

    def train(self, watch: Callable[["Training"], Any]) -> None:
        """Train under the eyes of a monitor."""
        torch.manual_seed(self.seed)
        self.model = self.build()
        self.optimizer = self.make_optimizer()
        self.prepare()
        monitor = watch(self)
        for step in range(self.steps):
            self.step = step
            for act in self._moments.get(step, ()):
                act()
            self.optimizer.zero_grad()
            self.backward()
            self.reduce()
            self.update()
            self.after_step()
        monitor.close()


def mean_over(parameters: Any, group: Any = None) -> None:
    """Replace the gradients by their mean over the group."""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size(group)


def sum_over(parameters: Any, group: Any = None) -> None:
    """Replace the gradients by their sum over the group."""
    for parameter in parameters:
        dist.all_reduce(parameter.grad, group=group)
