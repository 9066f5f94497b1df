"""Odd models."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..script import Script
from ..scripts.cnn import ConvNet
from ..scripts.lm import Gpt
from ..table import healthy


def _trained_before(script: Any, steps: int) -> None:
    """Nothing; the model has been trained for a while before the run begins."""

    def train(model: nn.Module) -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        batches = script.make_batches()
        for _ in range(steps):
            loss = script.loss(model, *script.tensors(next(batches)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()

    script.after_build(train)


@healthy("converged", on="mlp")
def converged(script: Script) -> None:
    """The run goes on where another one had reached a loss of nearly nothing."""
    _trained_before(script, 250)
    script.rate = 1e-4


@healthy("fine-tuning", on="cnn")
def fine_tuning(script: Script) -> None:
    """A trained network of which only the head learns on, everything else frozen on purpose."""
    _trained_before(script, 60)
    script.after_build(lambda model: model.requires_grad_(False).head.requires_grad_(True))
    script.make_optimizer = lambda model: torch.optim.SGD(model.head.parameters(), lr=0.02, momentum=0.9)


@healthy("low-rank", on="lm")
def low_rank(script: Script) -> None:
    """Adapters of low rank beside frozen matrices, the second factor zero at the start (Hu et al. 2021)."""

    class Adapted(nn.Module):
        """A frozen matrix and two small ones beside it."""

        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, 4, bias=False)
            self.up = nn.Linear(4, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, x: Any) -> Any:
            """Both."""
            return self.base(x) + self.up(self.down(x))

    def adapt(model: nn.Module) -> None:
        model.requires_grad_(False)
        for block in model.blocks:
            block.attn.qkv, block.mlp.up = Adapted(block.attn.qkv), Adapted(block.mlp.up)

    _trained_before(script, 20)
    script.after_build(adapt)
    script.make_optimizer = lambda model: torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad], lr=script.rate
    )


@healthy("heavy-dropout", on="cnn")
def heavy_dropout(script: Script) -> None:
    """Half of the hidden units are dropped."""
    script.build = lambda: ConvNet(dropout=0.5)


@healthy("frequent-evaluation", on="lm")
def frequent_evaluation(script: Script) -> None:
    """The model is evaluated every other step."""
    script.evaluates_every = 2


@healthy("sparse-relu", on="mlp")
def sparse_relu(script: Script) -> None:
    """Biases a little below zero on purpose, so that few units fire at once."""

    def lower(model: nn.Module) -> None:
        for name in ("fc1", "fc2"):
            nn.init.constant_(model.get_submodule(name).bias, -0.3)

    script.after_build(lower)


@healthy("zero-residuals", on="lm")
def zero_residuals(script: Script) -> None:
    """The last matrix of every branch starts at zero, so that every block starts as the identity."""

    def clear(model: nn.Module) -> None:
        for block in model.blocks:
            nn.init.zeros_(block.attn.out_proj.weight)
            nn.init.zeros_(block.mlp.down.weight)

    script.after_build(clear)


@healthy("gates", on="mlp")
def gates(script: Any) -> None:
    """Sigmoid gates that begin nearly closed stand on a linear stem, which they carry past (Srivastava et al. 2015)."""

    class Gated(nn.Module):
        """A layer and how much of it is let through."""

        def __init__(self) -> None:
            super().__init__()
            self.gate, self.change = nn.Linear(48, 48), nn.Linear(48, 48)
            nn.init.constant_(self.gate.bias, -2.0)

        def forward(self, x: Any) -> Any:
            """The change where the gate is open, the input where it is not."""
            share = torch.sigmoid(self.gate(x))
            return share * torch.tanh(self.change(x)) + (1.0 - share) * x

    script.build = lambda: nn.Sequential(nn.Linear(64, 48), Gated(), Gated(), Gated(), nn.Linear(48, 10))


@healthy("two-losses", on="autoencoder")
def two_losses(script: Script) -> None:
    """A penalty on the middle is added to the squared error."""

    def loss(model: Any, pixels: Any, _labels: Any) -> Any:
        code = model.encoder(pixels)
        return functional.mse_loss(model.decoder(code), pixels) + 1e-3 * code.abs().mean()

    script.loss = loss


@healthy("wide-vocabulary", on="lm")
def wide_vocabulary(script: Script) -> None:
    """Most of the vocabulary never occurs, so that most rows of the embedding have no gradient of their own."""
    script.build = lambda: Gpt(vocabulary=2048)


@healthy("noisy-reward", on="grpo")
def noisy_reward(script: Script) -> None:
    """A judge that is wrong now and then."""
    intact = script.reward
    script.reward = lambda prompts, answers: intact(prompts, answers) + 0.3 * torch.randn(len(prompts))


@healthy("easy-prompts", on="grpo")
def easy_prompts(script: Script) -> None:
    """Rewards are all or nothing, so that some groups agree."""
    script.reward = lambda prompts, answers: (answers == (prompts + 1) % 8)[:, :2].all(-1).float()
