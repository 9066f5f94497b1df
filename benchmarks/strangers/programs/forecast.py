"""Decoder-only transformer for many related series (daily pattern with period 12 plus a slower one, drifting level)."""
import json
import math
import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(21)
rng = np.random.RandomState(21)

CONTEXT = 48
HORIZON = 12
D_MODEL = 32


def gen_series(n, length):
    out = np.zeros((n, length), dtype=np.float32)
    t = np.arange(length)
    for i in range(n):
        ph, ph2 = rng.uniform(0, 12), rng.uniform(0, 30)
        amp, amp2 = rng.uniform(0.8, 1.5), rng.uniform(0.3, 0.8)
        saw = ((t + ph) % 12) / 12.0
        s = amp * np.where(saw < 0.3, saw / 0.3, 1 - (saw - 0.3) / 0.7) + amp2 * np.sin(2 * np.pi * (t + ph2) / 30)
        e = np.zeros(length)
        for k in range(1, length):
            e[k] = 0.7 * e[k - 1] + 0.06 * rng.randn()
        out[i] = (s + e) * rng.uniform(1, 20) + rng.uniform(-50, 50)
    return out


class Scaler:
    """One mean and one scale per series, from the training span."""

    def fit(self, x):
        self.mean = x.mean(axis=1, keepdims=True)
        self.std = x.std(axis=1, keepdims=True) + 1e-6
        return self

    def transform(self, x):
        return (x - self.mean) / self.std


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(200.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)].unsqueeze(0)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ln2 = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.ff(self.ln2(x))


class Forecaster(nn.Module):
    def __init__(self, d=D_MODEL, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Linear(1, d)
        self.pos = PositionalEncoding(d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, 1)

    def forward(self, x):
        T = x.size(1)
        mask = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)
        h = self.pos(self.embed(x.unsqueeze(-1)))
        for blk in self.blocks:
            h = blk(h, mask)
        return self.head(self.norm(h)).squeeze(-1)


def batches(data, batch_size, steps):
    n, length = data.shape
    for _ in range(steps):
        i = rng.randint(0, n, batch_size)
        s = rng.randint(0, length - CONTEXT - 1, batch_size)
        w = np.stack([data[a, b : b + CONTEXT + 1] for a, b in zip(i, s)])
        w = torch.from_numpy(w)
        yield w[:, :-1], w[:, 1:]


@torch.no_grad()
def rollout(model, ctx, horizon):
    model.eval()
    x = ctx
    for _ in range(horizon):
        nxt = model(x[:, -CONTEXT:])[:, -1:]
        x = torch.cat([x, nxt], dim=1)
    return x[:, -horizon:]


series = gen_series(200, 240)
split = 240 - HORIZON * 2
scaler = Scaler().fit(series[:, :split])
scaled = scaler.transform(series)
train_data = scaled[:, :split]

model = Forecaster()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
EPOCHS, STEPS = 12, 40
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.82)
for epoch in range(EPOCHS):
    model.train()
    losses = []
    for x, y in batches(train_data, 24, STEPS):
        opt.zero_grad()
        pred = model(x)
        loss = (pred - y).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
    sched.step()
    print(f"epoch {epoch} mse {np.mean(losses):.4f} lr {opt.param_groups[0]['lr']:.2e}")

errs = []
for start in range(split, 240, HORIZON):
    ctx = torch.from_numpy(scaled[:, start - 3 * HORIZON : start])
    fut = torch.from_numpy(scaled[:, start : start + HORIZON])
    errs.append((rollout(model, ctx, HORIZON) - fut).abs().mean().item())
print("RESULT " + json.dumps({"metric": "rollout_mae_scaled", "value": round(float(np.mean(errs)), 4), "better": "lower"}))
