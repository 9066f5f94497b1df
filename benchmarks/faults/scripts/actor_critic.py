"""Proximal policy optimisation of a contextual choice, on PyTorch: one body, a small policy head, a value head."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ..script import Batch
from ..table import script
from .torch_script import TorchScript

CONTEXT, CHOICES, TURNS, PARTS, PASSES = 6, 4, 256, 4, 4


class ActorCritic(nn.Module):
    """Logits of the choices and the value of the context, `(n, 6) -> (n, 4), (n,)`."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(CONTEXT, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy, self.value = nn.Linear(64, CHOICES), nn.Linear(64, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)
        nn.init.zeros_(self.policy.bias)

    def forward(self, contexts: Any) -> tuple[Any, Any]:
        """Both."""
        hidden = self.body(contexts)
        return self.policy(hidden), self.value(hidden)[:, 0]


@script("actor-critic")
class Ppo(TorchScript):
    """Adam, 256 turns that are gone through four times in parts of 64, gradients clipped at 0.5.

    Reference:
        Schulman et al. 2017, arXiv:1707.06347, eq. 9; Andrychowicz et al. 2021, arXiv:2006.05990, for the small head.
    """

    rate = 3e-4
    steps = 128

    def build(self) -> Any:
        """The network."""
        return ActorCritic()

    def make_optimizer(self, model: Any) -> Any:
        """Adam with the epsilon of the paper's code."""
        return torch.optim.Adam(model.parameters(), lr=self.rate, eps=1e-5)

    def make_batches(self) -> Iterator[Batch]:
        """Parts of what the newest policy has done."""
        generator = np.random.default_rng(self.seed)
        worth = generator.normal(0.0, 1.0, (CONTEXT, CHOICES))
        while True:
            turns = self.play(generator, worth)
            for _ in range(PASSES):
                for part in np.split(generator.permutation(TURNS), PARTS):
                    yield tuple(one[part] for one in turns)

    def play(self, generator: np.random.Generator, worth: Any) -> Batch:
        """Contexts, choices, their log-probabilities, advantages and rewards of 256 turns."""
        contexts = generator.normal(0.0, 1.0, (TURNS, CONTEXT)).astype(np.float32)
        with torch.no_grad():
            logits, values = self.model(torch.from_numpy(contexts))
        policy = torch.distributions.Categorical(logits=logits)
        choices = policy.sample()
        rewards = (contexts @ worth)[np.arange(TURNS), choices.numpy()] + generator.normal(0.0, 0.1, TURNS)
        gains = rewards - values.numpy()
        if self.watcher is not None:
            self.watcher.log({"reward/mean": float(rewards.mean()), "policy/entropy": float(policy.entropy().mean())})
        advantages = ((gains - gains.mean()) / gains.std()).astype(np.float32)
        return contexts, choices.numpy(), policy.log_prob(choices).numpy(), advantages, rewards.astype(np.float32)

    def loss(self, model: Any, contexts: Any, choices: Any, before: Any, advantages: Any, rewards: Any) -> Any:
        """The clipped gain, the squared error of the value, and a little entropy."""
        logits, values = model(contexts)
        policy = torch.distributions.Categorical(logits=logits)
        ratio = (policy.log_prob(choices) - before).exp()
        gain = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        return 0.5 * self.error(values, rewards) - gain - 0.01 * policy.entropy().mean()

    def error(self, values: Any, rewards: Any) -> Any:
        """What the value head is trained by."""
        return functional.mse_loss(values, rewards)

    def update(self, loss: Any) -> None:
        """One step with clipped gradients."""
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
