"""The causal transformer on the text of Python's manual, on PyTorch: tied head, dropout, warm-up, clipping."""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from mindscope.cli.demo.demo_data import manual, windows
from torch import nn
from torch.nn import functional

from ..script import Batch
from ..table import script
from .experts import Experts
from .torch_script import TorchScript

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 128, 32, 64, 4, 2


class Attention(nn.Module):
    """Causal attention with several heads, `(batch, positions, width)` to the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.scale: float | None = None

    def forward(self, x: Any) -> Any:
        """What every position gathers from those before it."""
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, HEADS, w // HEADS).permute(2, 0, 3, 1, 4)
        return self.out_proj(self.mix(q, k, v).transpose(1, 2).reshape(b, s, w))

    def mix(self, q: Any, k: Any, v: Any) -> Any:
        """The weighted values."""
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)


class Mlp(nn.Module):
    """The feed-forward part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """Each position by itself."""
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, width: int, dropout: float, mlp: nn.Module) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width)
        self.norm2, self.mlp, self.dropout = nn.LayerNorm(width), mlp, nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        """Both, one after the other."""
        x = x + self.dropout(self.attn(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Gpt(nn.Module):
    """A decoder whose head shares its weights with the embedding.

    Shape:
        integers `(batch, positions) -> (batch, positions, vocabulary)`
    """

    def __init__(self, *, vocabulary: int = VOCABULARY, dropout: float = 0.1, experts: int = 0) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(
            Block(WIDTH, dropout, Experts(WIDTH, experts) if experts else Mlp(WIDTH)) for _ in range(LAYERS)
        )
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)
        self.apply(_initialise)
        for block in self.blocks:
            nn.init.normal_(block.attn.out_proj.weight, std=0.02 / math.sqrt(2 * LAYERS))
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Any) -> Any:
        """Logits of the next symbol at every position."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


@script("lm")
class LanguageModel(TorchScript):
    """A causal language model: AdamW, warm-up and cosine, gradients clipped at 1."""

    config: ClassVar = {"causality": True}
    evaluates_every = 20
    rate = 3e-3
    warm_up = 10
    clip = 1.0
    batch_size = 8

    def build(self) -> Any:
        """The decoder."""
        return Gpt()

    def make_optimizer(self, model: Any) -> Any:
        """AdamW, matrices decayed."""
        return torch.optim.AdamW(model.parameters(), lr=self.rate, betas=(0.9, 0.95), weight_decay=0.1)

    def make_schedule(self, optimizer: Any) -> Any:
        """Linear warm-up, then a cosine to a tenth."""
        return torch.optim.lr_scheduler.LambdaLR(optimizer, self.factor)

    def factor(self, step: int) -> float:
        """The share of the full rate at a step."""
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        done = min(1.0, (step - self.warm_up) / (self.steps - self.warm_up))
        return 0.1 + 0.45 * (1.0 + math.cos(math.pi * done))

    def make_batches(self) -> Iterator[Batch]:
        """Windows of the text and the same one symbol later."""
        return windows(manual() & 127, CONTEXT, self.batch_size, self.seed)

    def loss(self, model: Any, tokens: Any, targets: Any) -> Any:
        """Mean cross entropy over all positions."""
        return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    def update(self, loss: Any) -> None:
        """One step with clipped gradients."""
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()

    def evaluate(self) -> dict[str, float]:
        """Loss on windows drawn by another seed."""
        batch = self.tensors(next(windows(manual() & 127, CONTEXT, 16, self.seed + 1000)))
        self.model.eval()
        with torch.no_grad():
            loss = self.loss(self.model, *batch)
        self.model.train()
        return {"validation/loss": float(loss)}
