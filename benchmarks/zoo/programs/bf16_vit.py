"""A small vision transformer under bfloat16 autocast with accumulation over two micro-batches."""

import sys

import torch
from torch import nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def rings(n):
    y = torch.randint(0, 3, (n,))
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    shift = 0.3 * torch.rand(n, 2, 1, 1)
    r = ((xs - shift[:, 0]) ** 2 + (ys - shift[:, 1]) ** 2).sqrt()
    return (torch.sin(r * (6 + 4 * y[:, None, None])) + 0.5 * torch.randn(n, 16, 16))[:, None], y


class ViT(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(0.02 * torch.randn(1, 17, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 3))

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])


model, accumulate = ViT(), 2
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(600):
    x, y = rings(24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = criterion(model(x), y) / accumulate
    loss.backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
    if step % 150 == 0:
        print(step, accumulate * loss.item())
model.eval()
with torch.no_grad():
    x, y = rings(600)
    print("result", criterion(model(x), y).item())
