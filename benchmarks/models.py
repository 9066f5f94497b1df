"""The models of the benchmarks, on torch and on the engine; labels are drawn anew, so no loss vanishes."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

Step = Callable[[], None]
#: Sizes of the layers, batch.
MLPS = {"mlp": ((784, 512, 512, 10), 128), "small-mlp": ((784, 256, 256, 10), 128)}
#: Width, heads, batch, length; four blocks, 256 tokens.
GPTS = {"gpt": (256, 4, 8, 128), "small-gpt": (128, 4, 8, 128)}
#: Blocks, words, width, heads, batch, length of GPT-2 124M, which is trained in bfloat16 on a GPU.
GPT2 = (12, 50257, 768, 12, 8, 1024)


def torch_model(name: str) -> tuple[Any, Any, Step]:
    """Model, optimizer and step of a torch training."""
    model, optimizer, loss = torch_training(name)
    return model, optimizer, _step_of(optimizer, loss)


def engine_model(name: str) -> tuple[Any, Any, Step]:
    """Model, optimizer and step of the same training on the engine."""
    model, optimizer, loss = engine_training(name)
    return model, optimizer, _step_of(optimizer, loss)


def _step_of(optimizer: Any, loss: Callable[[], Any]) -> Step:
    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def torch_training(name: str) -> tuple[Any, Any, Callable[[], Any]]:
    """Model, optimizer and the loss of the next batch, of a torch training."""
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
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
            self.norm2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self, width: int, heads: int, length: int, blocks: int = 4, words: int = 256) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
            return self.head(self.norm(self.blocks(x)))

    torch.manual_seed(0)
    model, x, labels = _task(name, Gpt)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def loss() -> Any:
        logits = model(x).flatten(0, -2)
        return functional.cross_entropy(logits, torch.randint(0, *labels, device=x.device))

    return model, optimizer, loss


def _task(name: str, gpt: Callable[..., Any]) -> tuple[Any, Any, tuple[int, tuple[int, ...]]]:
    """Model, batch, and number and shape of the labels, of a torch training."""
    import torch
    from torch import nn

    if name == "gpt2":
        return _gpt2(gpt)
    if name in MLPS:
        sizes, batch = MLPS[name]
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*layers[:-1]), torch.randn(batch, sizes[0]), (10, (batch,))
    if name == "cnn":
        model = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)),
        )
        return model, torch.randn(64, 1, 28, 28), (10, (64,))
    width, heads, batch, length = GPTS[name]
    return gpt(width, heads, length), torch.randint(0, 256, (batch, length)), (256, (batch * length,))


def _gpt2(gpt: Callable[..., Any]) -> tuple[Any, Any, tuple[int, tuple[int, ...]]]:
    """The same of GPT-2 124M on a GPU."""
    import torch

    blocks, words, width, heads, batch, length = GPT2
    model = gpt(width, heads, length, blocks, words)
    model.head.weight = model.tokens.weight
    model = model.to("cuda", torch.bfloat16)
    return model, torch.randint(0, words, (batch, length), device="cuda"), (words, (batch * length,))


def engine_training(name: str) -> tuple[Any, Any, Callable[[], Any]]:
    """Model, optimizer and the loss of the next batch, of the same training on the engine."""
    from mindscope.framework import Key, Tensor, nn, ops

    class Gpt(nn.Cell):
        def __init__(self, width: int, heads: int, length: int) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, width, key=Key(1)), nn.Embedding(length, width, key=Key(2))
            self.blocks = nn.SequentialCell(*(nn.TransformerBlock(width, heads, key=Key(3 + i)) for i in range(4)))
            self.norm, self.head = nn.LayerNorm(width), nn.Dense(width, 256, has_bias=False, key=Key(9))

        def construct(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(Tensor(np.arange(x.shape[1])))
            return self.head(self.norm(self.blocks(x)))

    keys = iter([Key(i) for i in range(9)])
    rng = np.random.default_rng(0)
    if name in MLPS:
        sizes, batch = MLPS[name]
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Dense(*pair, key=next(keys)), nn.ReLU())]
        model, x, classes = nn.SequentialCell(*layers[:-1]), rng.normal(size=(batch, sizes[0])).astype(np.float32), 10
    elif name == "cnn":
        model = nn.SequentialCell(
            *(nn.Conv2d(1, 16, 3, key=next(keys)), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, key=next(keys)), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dense(32 * 49, 128, key=next(keys)), nn.ReLU(), nn.Dense(128, 10, key=next(keys))),
        )
        x, classes = rng.normal(size=(64, 1, 28, 28)).astype(np.float32), 10
    else:
        width, heads, batch, length = GPTS[name]
        model, x, classes = Gpt(width, heads, length), rng.integers(0, 256, (batch, length)), 256
    model.set_train()
    optimizer = nn.AdamW(model.trainable_params(), 1e-4)
    data = Tensor(x)

    def loss() -> Any:
        logits = model(data)
        labels = Tensor(rng.integers(0, classes, logits.shape[:-1]))
        return ops.cross_entropy(logits, labels)

    return model, optimizer, loss
