"""Quantile forecasts of hourly electricity load from sliding windows (recurrent encoder, own pinball loss)."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

QUANTILES = (0.1, 0.5, 0.9)

def simulate(hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    temp = 12 + 9 * np.sin(2 * np.pi * t / 8760) + 4 * np.sin(2 * np.pi * t / 24) + rng.normal(0, 1.5, hours)
    weekend = ((t // 24) % 7 >= 5).astype(float)
    load = 5200 + 900 * np.sin(2 * np.pi * (t - 7) / 24) - 600 * weekend - 45 * temp + rng.normal(0, 80, hours)
    glitches = rng.choice(hours, hours // 1500, replace=False)
    load[glitches] = 9.9e6                                    # meter overflow code
    return np.stack([load, temp, weekend], axis=1)

def repair(table):
    table = table.copy()
    bad = table[:, 0] > 1e5
    good = np.flatnonzero(~bad)
    table[bad, 0] = np.interp(np.flatnonzero(bad), good, table[good, 0])
    return table

class Scaler:
    def fit(self, table):
        self.mean, self.std = table.mean(0), table.std(0) + 1e-8
        return self

    def transform(self, table):
        return ((table - self.mean) / self.std).astype(np.float32)

class WindowDataset(Dataset):
    def __init__(self, table, lookback, horizon, stride=1):
        self.table, self.lookback, self.horizon = torch.from_numpy(table), lookback, horizon
        self.starts = range(0, len(table) - lookback - horizon + 1, stride)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        a = self.starts[i]
        b = a + self.lookback
        past = self.table[a:b]
        known_future = self.table[b:b + self.horizon, 1:]
        target = self.table[b:b + self.horizon, 0]
        return past, known_future, target

class Pinball(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pred, target, q):
        err = target.unsqueeze(-1) - pred
        ctx.save_for_backward(err, q)
        return torch.maximum(q * err, (q - 1) * err).mean()

    @staticmethod
    def backward(ctx, grad_output):
        err, q = ctx.saved_tensors
        slope = torch.where(err > 0, -q.expand_as(err), 1 - q.expand_as(err))
        return grad_output * slope / err.numel(), None, None

class LeakyCell(nn.Module):
    """h <- (1 - a) h + a tanh(Wx + Uh)"""

    def __init__(self, n_in, n_hid):
        super().__init__()
        self.inp = nn.Linear(n_in, n_hid)
        self.rec = nn.Linear(n_hid, n_hid, bias=False)
        nn.init.orthogonal_(self.rec.weight, gain=1.0)
        self.rate = nn.Parameter(torch.full((n_hid,), -1.0))

    def forward(self, x, h):
        a = torch.sigmoid(self.rate)
        return (1 - a) * h + a * torch.tanh(self.inp(x) + self.rec(h))

class Forecaster(nn.Module):
    def __init__(self, n_feat, n_known, horizon, hidden):
        super().__init__()
        self.cell, self.hidden = LeakyCell(n_feat, hidden), hidden
        self.step_emb = nn.Embedding(horizon, 16)
        self.head = nn.Sequential(nn.Linear(hidden + n_known + 16, hidden), nn.ReLU(), nn.Dropout(0.1),
                                  nn.Linear(hidden, len(QUANTILES)))

    def forward(self, past, known):
        h = past.new_zeros(past.size(0), self.hidden)
        for k in range(past.size(1)):
            h = self.cell(past[:, k], h)
        steps = self.step_emb.weight.expand(past.size(0), -1, -1)
        ctx = h.unsqueeze(1).expand(-1, known.size(1), -1)
        return self.head(torch.cat([ctx, known, steps], dim=-1))

def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lookback", type=int, default=72)
    ap.add_argument("--horizon", type=int, default=12)
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--epochs", type=int, default=12)
    opts = ap.parse_args()
    torch.manual_seed(1)
    table = repair(simulate(9000, seed=8))
    cut = int(0.8 * len(table))
    scaler = Scaler().fit(table[:cut])
    train = WindowDataset(scaler.transform(table[:cut]), opts.lookback, opts.horizon, stride=2)
    valid = WindowDataset(scaler.transform(table[cut:]), opts.lookback, opts.horizon, stride=6)
    train_dl = DataLoader(train, batch_size=64, shuffle=True)
    valid_dl = DataLoader(valid, batch_size=256)
    model = Forecaster(3, 2, opts.horizon, opts.hidden)
    q = torch.tensor(QUANTILES)
    optim = torch.optim.Adam(model.parameters(), lr=opts.lr)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optim, mode="min", factor=0.5, patience=1)
    for epoch in range(opts.epochs):
        model.train()
        for past, known, target in train_dl:
            loss = Pinball.apply(model(past, known), target, q)
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
        model.eval()
        with torch.no_grad():
            scores = [Pinball.apply(model(p, k), y, q).item() for p, k, y in valid_dl]
        plateau.step(float(np.mean(scores)))
        print(f"epoch {epoch:2d}  train {loss.item():.4f}  valid {np.mean(scores):.4f}")

if __name__ == "__main__":
    main()
