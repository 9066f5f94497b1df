import copy
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LOOKBACK, HORIZON = 56, 14
QUANTILES = torch.tensor([0.1, 0.5, 0.9])


def make_series(seed, n_series=40, length=420):
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    out = []
    for _ in range(n_series):
        level = rng.uniform(20, 200)
        week = rng.normal(0, 0.25, 7)
        slope = rng.normal(0, 0.0008)
        phase = rng.uniform(0, 2 * np.pi)
        slow = 0.15 * np.sin(2 * np.pi * t / 60 + phase)
        ar = np.zeros(length)
        for i in range(1, length):
            ar[i] = 0.8 * ar[i - 1] + rng.normal(0, 0.03)
        y = level * (1 + slope * t + slow + week[t % 7] + ar + rng.normal(0, 0.03, length))
        out.append(y)
    y = np.stack(out).astype(np.float32)
    for i in range(0, n_series, 5):
        s = rng.integers(20, 220)
        y[i, s:s + 75] = y[i, s - 1]
    return torch.from_numpy(y)


def sample_windows(series, n, gen):
    rows = torch.randint(series.size(0), (n,), generator=gen)
    starts = torch.randint(series.size(1) - LOOKBACK - HORIZON + 1, (n,), generator=gen)
    x = torch.stack([series[r, s:s + LOOKBACK] for r, s in zip(rows, starts)])
    y = torch.stack([series[r, s + LOOKBACK:s + LOOKBACK + HORIZON] for r, s in zip(rows, starts)])
    return x, y


def window_stats(x):
    mean = x.mean(dim=1, keepdim=True)
    std = x.std(dim=1, keepdim=True) + 1e-2 * mean.abs() + 1e-3
    return mean, std


def pinball(pred, target):
    diff = target.unsqueeze(-1) - pred
    return torch.maximum(QUANTILES * diff, (QUANTILES - 1) * diff).mean()


class CausalConv(nn.Module):
    def __init__(self, c_in, c_out, dilation):
        super().__init__()
        self.left = 2 * dilation
        self.conv = nn.Conv1d(c_in, c_out, 3, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.left, 0)))


class TemporalBlock(nn.Module):
    def __init__(self, c, dilation, p=0.05):
        super().__init__()
        self.c1 = CausalConv(c, c, dilation)
        self.c2 = CausalConv(c, c, dilation)
        self.drop = nn.Dropout(p)
        self.norm = nn.GroupNorm(1, c)

    def forward(self, x):
        h = self.drop(F.relu(self.c1(self.norm(x))))
        return x + self.drop(self.c2(h))


class TCN(nn.Module):
    def __init__(self, c=20):
        super().__init__()
        self.inp = nn.Conv1d(1, c, 1)
        self.blocks = nn.Sequential(*[TemporalBlock(c, d) for d in (1, 2, 4, 8)])
        self.head = nn.Sequential(nn.Linear(c + LOOKBACK, 64), nn.ReLU(), nn.Linear(64, HORIZON * len(QUANTILES)))

    def forward(self, x):
        h = self.blocks(self.inp(x.unsqueeze(1)))
        z = torch.cat([h[:, :, -1], x], dim=1)
        return self.head(z).view(-1, HORIZON, len(QUANTILES))


class EMA:
    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).eval()
        for p in self.shadow.parameters():
            p.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


def quantile_score(pred, y):
    total = 0.0
    for k, q in enumerate(QUANTILES.tolist()):
        over = (pred[..., k] - y).clamp(min=0).mean()
        under = (y - pred[..., k]).clamp(min=0).mean()
        total = total + q * under + (1 - q) * over
    return total / len(QUANTILES)


@torch.no_grad()
def backtest(model, series, split):
    """Rolling forecasts over the held-out period, scaled pinball loss."""
    model.eval()
    losses, scale = [], (series[:, 7:split] - series[:, :split - 7]).abs().mean()
    for s in range(split, series.size(1) - HORIZON + 1, 7):
        x, y = series[:, s - LOOKBACK:s], series[:, s:s + HORIZON]
        mean, std = window_stats(x)
        pred = model((x - mean) / std) * std.unsqueeze(-1) + mean.unsqueeze(-1)
        losses.append(quantile_score(pred, y) / scale)
    return torch.stack(losses).mean().item()


def run(seed):
    torch.manual_seed(seed)
    series = make_series(seed)
    split = 340
    train = series[:, :split]
    gen = torch.Generator().manual_seed(seed + 5)

    model = TCN()
    ema = EMA(model, 0.98)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    steps = 450
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)
    avg = 0.0
    for it in range(steps):
        model.train()
        x, y = sample_windows(train, 32, gen)
        mean, std = window_stats(x)
        pred = model((x - mean) / std)
        loss = pinball(pred, (y - mean) / std)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        ema.update(model)
        avg += loss.item()
        if (it + 1) % 150 == 0:
            print(f"iter {it + 1} train {avg / 150:.4f} backtest {backtest(ema.shadow, series, split):.4f}")
            avg = 0.0
    return backtest(ema.shadow, series, split)


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    print(f"result {run(seed):.6f}")
