"""Reinforcement learning as with language models: groups of answers, rewards compared within the group, a leash."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ..script import Batch
from ..table import script
from .lm import Gpt
from .torch_script import TorchScript

SYMBOLS, EXTRA, ANSWER = 8, 9, 4


@script("grpo")
class Grpo(TorchScript):
    """A small policy learns to answer each symbol with the next one; group-relative advantages, KL to a reference.

    Reference:
        Shao et al. 2024, arXiv:2402.03300, section 4.1.
    """

    rate = 1e-3
    prompts, group = 8, 8
    kl_weight = 0.05
    clip = 1.0

    def build(self) -> Any:
        """A policy that has seen a few noisy answers, and is its own reference from then on."""
        policy = Gpt(vocabulary=12, dropout=0.0)
        optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
        generator = np.random.default_rng(self.seed + 77)
        for _ in range(25):
            prompts = generator.integers(0, SYMBOLS, (32, ANSWER))
            noise = generator.integers(0, EXTRA + 1, (32, ANSWER))
            answers = np.where(generator.random((32, ANSWER)) < 0.5, (prompts + 1) % SYMBOLS, noise)
            whole = torch.from_numpy(np.concatenate([prompts, answers], 1))
            logits = policy(whole[:, :-1])[:, ANSWER - 1 :]
            optimizer.zero_grad()
            functional.cross_entropy(logits.flatten(0, 1), whole[:, ANSWER:].flatten()).backward()
            optimizer.step()
        optimizer.zero_grad()
        self.reference = deepcopy(policy).eval()
        self.reference.head.weight = self.reference.tokens.weight
        return policy

    def make_optimizer(self, model: Any) -> Any:
        """AdamW without decay."""
        return torch.optim.AdamW(model.parameters(), lr=self.rate, weight_decay=0.0)

    def make_batches(self) -> Iterator[Batch]:
        """Prompts."""
        generator = np.random.default_rng(self.seed)
        while True:
            yield (generator.integers(0, SYMBOLS, (self.prompts, ANSWER)),)

    # --- the pieces of the reward -----------------------------------------------------------------------------

    def reward(self, prompts: Any, answers: Any) -> Any:
        """`(n,)` share of symbols that are right."""
        return (answers == (prompts + 1) % SYMBOLS).float().mean(-1)

    def true_aim(self, prompts: Any, answers: Any) -> Any:
        """What a person would say of the answers; the training never sees it."""
        return (answers == (prompts + 1) % SYMBOLS).float().mean(-1)

    def advantage(self, rewards: Any) -> Any:
        """`(prompts, group)` centred and scaled within each group."""
        return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)

    def objective(self, advantages: Any, ratio: Any) -> Any:
        """`(n, ANSWER)` the clipped surrogate, to be minimised."""
        return -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)

    # --- the loop ---------------------------------------------------------------------------------------------

    def sample(self, prompts: Any) -> Any:
        """`(n, ANSWER)` symbols drawn from the policy."""
        self.model.eval()
        text = prompts
        with torch.no_grad():
            for _ in range(ANSWER):
                chances = self.model(text)[:, -1].softmax(-1)
                text = torch.cat([text, torch.multinomial(chances.nan_to_num(1.0).clamp_min(1e-8), 1)], 1)
        self.model.train()
        return text[:, ANSWER:]

    def loss(self, model: Any, prompts: Any) -> Any:
        """Surrogate and leash over all answers; what the script knows of them is logged."""
        repeated = prompts.repeat_interleave(self.group, 0)
        answers = self.sample(repeated)
        rewards = self.reward(repeated, answers).view(self.prompts, self.group)
        text = torch.cat([repeated, answers], 1)[:, :-1]
        distribution = model(text)[:, ANSWER - 1 :].log_softmax(-1)
        chosen = distribution.gather(-1, answers[..., None])[..., 0]
        with torch.no_grad():
            anchor = self.reference(text)[:, ANSWER - 1 :].log_softmax(-1)
        apart = anchor.gather(-1, answers[..., None])[..., 0] - chosen
        leash = apart.exp() - apart - 1.0
        ratio = (chosen - chosen.detach()).exp()
        surrogate = self.objective(self.advantage(rewards).flatten()[:, None], ratio)
        self._log(rewards, leash, distribution, self.true_aim(repeated, answers))
        return (surrogate + self.kl_weight * leash).mean()

    def update(self, loss: Any) -> None:
        """One step with clipped gradients."""
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()

    def _log(self, rewards: Any, leash: Any, distribution: Any, aim: Any) -> None:
        if self.watcher is None:
            return
        self.watcher.log(
            {
                "reward/mean": float(rewards.mean()),
                "reward/std": float(rewards.std()),
                "reward/held_out": float(aim.mean()),
                "policy/kl": float(leash.detach().mean()),
                "policy/entropy": float(-(distribution.exp() * distribution).sum(-1).mean().detach()),
                "advantage/zero_share": float((rewards.std(1) == 0.0).float().mean()),
                "advantage/std": float(rewards.std(1).mean()),
            }
        )
