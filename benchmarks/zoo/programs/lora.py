"""Pretrain a small transformer classifier, then fine-tune it on another task with LoRA; the backbone is frozen."""

import sys
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
VOCAB, LENGTH = 24, 16


def source_task(n):
    x = torch.randint(0, VOCAB, (n, LENGTH))
    return x, ((x < 8).sum(1) > (x >= 16).sum(1)).long()


def target_task(n):
    x = torch.randint(0, VOCAB, (n, LENGTH))
    return x, ((x % 2 == 0).sum(1) > LENGTH // 2).long()


class Backbone(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 96), nn.Linear(96, dim)
        self.classifier = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.embed(ids)
        h = self.norm1(x)
        a = torch.softmax(self.q(h) @ self.k(h).transpose(1, 2) / math.sqrt(h.size(-1)), -1)
        x = x + self.o(a @ self.v(h))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.classifier(x.mean(1))


class LoRALinear(nn.Module):
    def __init__(self, base, r=8, alpha=16):
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.empty(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scaling = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.A.t() @ self.B.t()) * self.scaling


def fit(model, task, steps, lr):
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=lr)
    for step in range(steps):
        x, y = task(64)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 150 == 0:
            print(step, loss.item())


backbone = Backbone()
fit(backbone, source_task, 300, 2e-3)
print("source", F.cross_entropy(backbone(source_task(500)[0]).detach(), source_task(500)[1]).item())

for p in backbone.parameters():
    p.requires_grad = False
for name in ("q", "k", "v", "o", "up", "down"):
    setattr(backbone, name, LoRALinear(getattr(backbone, name)))
backbone.classifier = nn.Linear(48, 2)
print("trainable", sum(p.numel() for p in backbone.parameters() if p.requires_grad))
fit(backbone, target_task, 700, 3e-3)
backbone.eval()
with torch.no_grad():
    x, y = target_task(2000)
    print("result", F.cross_entropy(backbone(x), y).item())
