"""Mixture-of-experts language model on Markov sequences, top-2 routing with a balance loss."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("seed", type=int, nargs="?", default=0)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--experts", type=int, default=4)
args = parser.parse_args()
torch.manual_seed(args.seed)

VOCAB, DIM, LENGTH, BATCH = 32, 48, 32, 16
transition = torch.softmax(3.0 * torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(7)), dim=-1)


def sample(batch):
    tokens = torch.zeros(batch, LENGTH + 1, dtype=torch.long)
    tokens[:, 0] = torch.randint(0, VOCAB, (batch,))
    for t in range(LENGTH):
        tokens[:, t + 1] = torch.multinomial(transition[tokens[:, t]], 1).squeeze(1)
    return tokens


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class MoE(nn.Module):
    def __init__(self, dim, experts, k=2):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim) for _ in range(experts))
        self.k = k

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        probabilities = F.softmax(self.router(flat), dim=-1)
        weight, chosen = probabilities.topk(self.k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        load = torch.zeros(len(self.experts))
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == e)
            load[e] = rows.numel() / flat.size(0)
            if rows.numel():
                out = out.index_add(0, rows, weight[rows, slot, None] * expert(flat[rows]))
        balance = len(self.experts) * (load / self.k * probabilities.mean(0)).sum()
        return out.view_as(x), balance


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.attention = nn.MultiheadAttention(DIM, 4, batch_first=True)
        self.norm2 = nn.LayerNorm(DIM)
        self.moe = MoE(DIM, args.experts)

    def forward(self, x, mask):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        y, balance = self.moe(self.norm2(x))
        return x + y, balance


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.position = nn.Parameter(0.02 * torch.randn(LENGTH, DIM))
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        mask = torch.triu(torch.full((tokens.size(1), tokens.size(1)), float("-inf")), 1)
        x, total = self.embed(tokens) + self.position, 0.0
        for layer in self.layers:
            x, balance = layer(x, mask)
            total = total + balance
        return self.head(self.norm(x)), total


model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=args.steps)
for step in range(args.steps):
    tokens = sample(BATCH)
    logits, balance = model(tokens[:, :-1])
    ce = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss = ce + 0.01 * balance
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 100 == 0:
        print(step, ce.item(), balance.item())

model.eval()
with torch.no_grad():
    held = sample(256)
    print("result", F.cross_entropy(model(held[:, :-1])[0].flatten(0, 1), held[:, 1:].flatten()).item())
