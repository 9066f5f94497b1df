"""Decoder language model: rotary attention, top-2 mixture-of-experts feed-forward, RMSNorm."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(vocab=24, ctx=40, d_model=48, heads=4, layers=2, experts=4, top_k=2, d_ff=64,
           batch=32, steps=500, lr=3e-3, aux=0.02, warmup=30)


class Grammar:
    """Each token depends on the token one back and the token three back."""

    def __init__(self, vocab, seed):
        g = torch.Generator().manual_seed(1000 + seed)
        self.vocab = vocab
        self.group = torch.randint(0, 6, (vocab,), generator=g)
        self.table = torch.stack([torch.randint(0, vocab, (36,), generator=g) for _ in range(2)], dim=1)
        self.gen = g

    def sample(self, n, length):
        out = torch.randint(0, self.vocab, (n, length), generator=self.gen)
        for t in range(3, length):
            key = self.group[out[:, t - 1]] * 6 + self.group[out[:, t - 3]]
            pick = (torch.rand(n, generator=self.gen) < 0.25).long()
            noise = torch.rand(n, generator=self.gen) < 0.1
            out[:, t] = torch.where(noise, out[:, t], self.table[key, pick])
        return out


def rotary_tables(head_dim, length, base=100.0):
    freq = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.arange(length).float()[:, None] * freq[None, :]
    return angle.cos(), angle.sin()


def apply_rotary(x, cos, sin):
    # x: batch, heads, time, head_dim
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = cos[: x.shape[-2]], sin[: x.shape[-2]]
    return torch.stack([a * c - b * s, a * s + b * c], dim=-1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, d, heads, ctx):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        cos, sin = rotary_tables(self.hd, ctx)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.register_buffer("mask", torch.ones(ctx, ctx, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x):
        (b, t, d), (q, k, v) = x.shape, self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, t, self.heads, self.hd).transpose(1, 2)
        k = k.view(b, t, self.heads, self.hd).transpose(1, 2)
        v = v.view(b, t, self.heads, self.hd).transpose(1, 2)
        q, k = apply_rotary(q, self.cos, self.sin), apply_rotary(k, self.cos, self.sin)
        score = q @ k.transpose(-2, -1) / math.sqrt(self.hd)
        score = score.masked_fill(~self.mask[:t, :t], float("-inf"))
        y = score.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Expert(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(d, ff), nn.Linear(d, ff), nn.Linear(ff, d)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Module):
    def __init__(self, d, ff, n, k):
        super().__init__()
        self.n, self.k = n, k
        self.router = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(Expert(d, ff) for _ in range(n))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probs = self.router(x).softmax(-1)
        top_p, top_i = probs.topk(self.k, dim=-1)
        top_p = top_p / top_p.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(top_i == e)
            if row.numel():
                y.index_add_(0, row, expert(x[row]) * top_p[row, slot].unsqueeze(-1))
        share = F.one_hot(top_i, self.n).float().sum(1).mean(0) / self.k
        balance = self.n * (share * probs.mean(0)).sum()
        return y.view(shape), balance


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(c["d_model"]), nn.RMSNorm(c["d_model"])
        self.attn = Attention(c["d_model"], c["heads"], c["ctx"])
        self.moe = MoE(c["d_model"], c["d_ff"], c["experts"], c["top_k"])

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        y, balance = self.moe(self.norm2(x))
        return x + y, balance


class LM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c["vocab"], c["d_model"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = nn.RMSNorm(c["d_model"])
        self.head = nn.Linear(c["d_model"], c["vocab"], bias=False)
        nn.init.normal_(self.tok.weight, std=0.5)

    def forward(self, ids):
        x, total = self.tok(ids), 0.0
        for block in self.blocks:
            x, balance = block(x)
            total = total + balance
        return self.head(self.norm(x)), total / len(self.blocks)


@torch.no_grad()
def next_token_nll(model, data):
    """Held-out nats per token, asking for the token that follows a cut-off prefix."""
    model.eval()
    losses = []
    for cut in range(6, data.shape[1], 3):
        logits, _ = model(data[:, :cut])
        losses.append(F.cross_entropy(logits[:, -1], data[:, cut]).item())
    model.train()
    return sum(losses) / len(losses)


def train(seed):
    torch.manual_seed(seed)
    c = CFG
    lang = Grammar(c["vocab"], seed)
    corpus, held = lang.sample(4000, c["ctx"] + 1), lang.sample(300, c["ctx"])
    model = LM(c)
    opt = torch.optim.AdamW(model.parameters(), lr=c["lr"], betas=(0.9, 0.95), weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / c["warmup"]) * (0.55 + 0.45 * math.cos(math.pi * s / c["steps"])))
    print(f"untrained {next_token_nll(model, held):.4f}")
    for step in range(c["steps"]):
        batch = corpus[torch.randint(0, len(corpus), (c["batch"],))]
        inputs, targets = batch[:, :-1], batch[:, 1:]
        logits, balance = model(inputs)
        ce = F.cross_entropy(logits.reshape(-1, c["vocab"]), targets.reshape(-1))
        loss = ce + c["aux"] * balance
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 100 == 0 or step == c["steps"] - 1:
            print(f"{step:5d} ce {ce.item():.4f} balance {balance.item():.3f}")
    return next_token_nll(model, held)


if __name__ == "__main__":
    print("result", round(train(int(sys.argv[1]) if len(sys.argv) > 1 else 0), 5))
