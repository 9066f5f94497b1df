"""The three models of the benchmarks, on torch and on the engine; labels are drawn anew, so no loss vanishes."""

from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], None]


def torch_model(name: str) -> tuple[Any, Any, Step]:
    """Model, optimizer and step of a torch training."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.qkv, self.proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

        def forward(self, x: Any) -> Any:
            b, s, w = x.shape
            q, k, v = self.qkv(x).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.proj(y.transpose(1, 2).reshape(b, s, w))

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(width), Attention(width, 4)
            self.norm2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, 256), nn.Embedding(128, 256)
            self.blocks = nn.Sequential(*(Block(256) for _ in range(4)))
            self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 256, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    torch.manual_seed(0)
    if name == "mlp":
        hidden = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
        model, x, labels = nn.Sequential(*hidden), torch.randn(128, 784), (10, (128,))
    elif name == "cnn":
        model = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)),
        )
        x, labels = torch.randn(64, 1, 28, 28), (10, (64,))
    else:
        model, x, labels = Gpt(), torch.randint(0, 256, (8, 128)), (256, (8 * 128,))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(x).flatten(0, -2)
        functional.cross_entropy(logits, torch.randint(0, *labels)).backward()
        optimizer.step()

    return model, optimizer, step


def engine_model(name: str) -> tuple[Any, Any, Step]:
    """Model, optimizer and step of the same training on the engine."""
    from mindscope.framework import Key, Tensor, nn, ops

    class Gpt(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, 256, key=Key(1)), nn.Embedding(128, 256, key=Key(2))
            self.blocks = nn.SequentialCell(*(nn.TransformerBlock(256, 4, key=Key(3 + i)) for i in range(4)))
            self.norm, self.head = nn.LayerNorm(256), nn.Dense(256, 256, has_bias=False, key=Key(9))

        def construct(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(Tensor(np.arange(x.shape[1])))
            return self.head(self.norm(self.blocks(x)))

    keys = iter([Key(i) for i in range(9)])
    rng = np.random.default_rng(0)
    if name == "mlp":
        sizes = ((784, 512), (512, 512), (512, 10))
        layers = [layer for size in sizes for layer in (nn.Dense(*size, key=next(keys)), nn.ReLU())]
        model, x, classes = nn.SequentialCell(*layers[:-1]), rng.normal(size=(128, 784)).astype(np.float32), 10
    elif name == "cnn":
        model = nn.SequentialCell(
            *(nn.Conv2d(1, 16, 3, key=next(keys)), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, key=next(keys)), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dense(32 * 49, 128, key=next(keys)), nn.ReLU(), nn.Dense(128, 10, key=next(keys))),
        )
        x, classes = rng.normal(size=(64, 1, 28, 28)).astype(np.float32), 10
    else:
        model, x, classes = Gpt(), rng.integers(0, 256, (8, 128)), 256
    model.set_train()
    optimizer = nn.AdamW(model.trainable_params(), 1e-4)
    data = Tensor(x)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(data)
        labels = Tensor(rng.integers(0, classes, logits.shape[:-1]))
        ops.cross_entropy(logits, labels).backward()
        optimizer.step()

    return model, optimizer, step
