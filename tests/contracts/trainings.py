"""Small real trainings on PyTorch, watched by the probe: healthy twins and planted faults for the diagnosis."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from mindscope.insight import Diagnosis, LiveDiagnosis, diagnose
from mindscope.probe import watch
from mindscope.storage import open_store
from torch import nn

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class Decoder(nn.Module):
    """A decoder transformer of two blocks with tied embeddings, small enough for a test."""

    def __init__(
        self, width: int = 32, blocks: int = 2, vocabulary: int = 32, *, act: type[nn.Module] = nn.GELU
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(64, width)
        self.blocks = nn.ModuleList([DecoderBlock(width, act) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class DecoderBlock(nn.Module):
    def __init__(self, width: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), act(), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True))
        return x + self.down(self.act(self.up(self.norm2(x))))


def mlp(act: type[nn.Module] = nn.ReLU, depth: int = 3, width: int = 64) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(64, width), act()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), act()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def cnn(act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        act(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        act(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 32),
        act(),
        nn.Dropout(0.2),
        nn.Linear(32, 10),
    )


def images(seed: int, batch: int = 32) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Ten noisy patterns on an 8 x 8 grid: learnable, never solved exactly."""
    random = torch.Generator().manual_seed(seed)
    patterns = torch.randn(10, 64, generator=random)
    while True:
        labels = torch.randint(0, 10, (batch,), generator=random)
        yield patterns[labels] + 1.0 * torch.randn(batch, 64, generator=random), labels


def text(seed: int, batch: int = 8, length: int = 32) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Sequences of a noisy cyclic grammar: the next token is mostly a function of the last one."""
    random = torch.Generator().manual_seed(seed)
    follow = torch.randperm(32, generator=random)
    while True:
        tokens = torch.randint(0, 32, (batch, length + 1), generator=random)
        for at in range(length):
            keep = torch.rand(batch, generator=random) < 0.8
            tokens[:, at + 1] = torch.where(keep, follow[tokens[:, at]], tokens[:, at + 1])
        yield tokens[:, :-1], tokens[:, 1:].flatten()


def diagnosis_of_training(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    steps: int,
    *,
    before_step: Callable[[int], None] = lambda step: None,
    clears: Callable[[int], bool] = lambda step: True,
    clip: float = 0.0,
    config: dict[str, object] | None = None,
) -> Diagnosis:
    """Trains, watched; the offline diagnosis, after it was found equal to the live one.

    Args:
        before_step: May harm the training.
        clears: False in the steps that forget to zero the gradients.
    """
    live = LiveDiagnosis()
    with open_store("memory:") as store:
        with watch(model, optimizer, store=store, run="training", config=config, listeners=(live,)):
            for step in range(steps):
                inputs, targets = next(batches)
                before_step(step)
                if clears(step):
                    optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs), targets)
                loss.backward()
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
        offline = diagnose(store, "training")
    assert repr(offline) == repr(replace(live.diagnosis(), state=offline.state))  # only the store knows how a run ended
    return offline
