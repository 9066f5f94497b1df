"""A character model that learns sums, with activation checkpointing and an embedding that is also the head."""

import random
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
random.seed(seed)
ALPHABET = "0123456789+=;"


def sums(count):
    text = []
    for _ in range(count):
        a, b = random.randrange(10), random.randrange(10)
        text.append(f"{a}+{b}={a + b:02d};")
    return torch.tensor([ALPHABET.index(c) for c in "".join(text)])


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x, mask):
        h = self.ln_1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, width=64, depth=4, length=32):
        super().__init__()
        self.wte = nn.Embedding(len(ALPHABET), width)
        self.wpe = nn.Embedding(length, width)
        nn.init.normal_(self.wte.weight, std=0.05)
        nn.init.normal_(self.wpe.weight, std=0.05)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        length = ids.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.wte(ids) + self.wpe(torch.arange(length))
        for block in self.blocks:
            x = checkpoint(block, x, mask, use_reentrant=False) if self.training else block(x, mask)
        return self.ln_f(x) @ self.wte.weight.T


data, held = sums(4000), sums(400)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.05)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=30)


def windows(source, count):
    starts = torch.randint(0, len(source) - 33, (count,))
    rows = torch.stack([source[s : s + 33] for s in starts])
    return rows[:, :-1], rows[:, 1:]


model.train()
for it in range(400):
    inputs, targets = windows(data, 16)
    logits = model(inputs)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    warmup.step()
    if it % 100 == 0:
        print(f"iter {it} loss {loss.item():.3f}")
model.eval()
with torch.no_grad():
    inputs, targets = windows(held, 128)
    print("result", nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).item())
