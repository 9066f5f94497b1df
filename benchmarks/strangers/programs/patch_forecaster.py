# Patch transformer with reversible instance normalisation for load forecasting.
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

hp = SimpleNamespace(context=96, horizon=24, patch=12, d_model=48, heads=4, depth=2,
                     lr=2e-3, warmup=30, steps=300, batch=64, meters=12, hours=1400)


def simulate_meters(rng):
    """Hourly load of several meters: daily + weekly cycle, drifting level, own scale; some hours stuck."""
    t = np.arange(hp.hours)
    rows = []
    for _ in range(hp.meters):
        level = 50 * rng.random() + np.cumsum(rng.normal(size=hp.hours)) * 0.15
        daily = np.sin(2 * np.pi * (t / 24 + rng.random())) + 0.5 * np.sin(4 * np.pi * (t / 24 + rng.random()))
        weekend = 1 - 0.5 * ((t // 24 + rng.integers(7)) % 7 >= 5)
        growth = 1 + 0.6 * t / hp.hours
        load = level + growth * daily * weekend * rng.uniform(1, 4) + 0.25 * rng.normal(size=hp.hours)
        if rng.random() < 0.5:
            start = rng.integers(100, 600)
            load[start:start + 110] = load[start]
        rows.append(load)
    return np.stack(rows).astype(np.float32)


class Windows(Dataset):
    def __init__(self, series, stride):
        self.series = torch.from_numpy(series)
        last = series.shape[1] - hp.context - hp.horizon
        self.index = [(m, s) for m in range(len(series)) for s in range(0, last + 1, stride)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        m, s = self.index[i]
        cut = s + hp.context
        return self.series[m, s:cut], self.series[m, cut:cut + hp.horizon]


class RevIN(nn.Module):
    def __init__(self, eps=1e-2):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(1))
        self.shift = nn.Parameter(torch.zeros(1))

    def stats(self, x):
        loc = x.mean(dim=1, keepdim=True)
        spread = torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + self.eps)
        return loc, spread

    def norm(self, x, loc, spread):
        return (x - loc) / spread * self.gain + self.shift

    def denorm(self, y, loc, spread):
        return (y - self.shift) / self.gain * spread + loc


class PatchForecaster(nn.Module):
    def __init__(self):
        super().__init__()
        n_patches = hp.context // hp.patch
        self.revin = RevIN()
        self.embed = nn.Linear(hp.patch, hp.d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(1, n_patches, hp.d_model))
        layer = nn.TransformerEncoderLayer(hp.d_model, hp.heads, 2 * hp.d_model, dropout=0.1,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, hp.depth, enable_nested_tensor=False)
        self.head = nn.Linear(hp.d_model, hp.horizon)

    def forward(self, x):
        loc, spread = self.revin.stats(x)
        z = self.revin.norm(x, loc, spread)
        tokens = self.embed(z.unfold(1, hp.patch, hp.patch)) + self.pos
        h = self.encoder(tokens)
        return self.revin.denorm(self.head(h[:, -1]), loc, spread)


def infinite(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err = naive = count = 0.0
    for x, y in loader:
        err += (model(x) - y).abs().sum().item()
        naive += (x[:, -hp.horizon:] - y).abs().sum().item()
        count += y.numel()
    model.train()
    return err / count, naive / count


def main():
    torch.manual_seed(21)
    data = simulate_meters(np.random.default_rng(21))
    border = int(0.75 * hp.hours)
    train_set = Windows(data[:, :border], stride=3)
    test_set = Windows(data[:, border:], stride=6)
    train_loader = DataLoader(train_set, batch_size=hp.batch, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=128)

    model = PatchForecaster()
    opt = torch.optim.AdamW(model.parameters(), lr=hp.lr, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / hp.warmup, 1.0) * (1 - 0.95 * s / hp.steps))
    batches = infinite(train_loader)
    for step in range(hp.steps):
        x, y = next(batches)
        loss = nn.functional.huber_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 50 == 0 or step == hp.steps - 1:
            print(f"step {step} huber {loss.item():.4f}")

    mae, naive = evaluate(model, test_loader)
    print(f"seasonal naive mae {naive:.4f}")
    print(f"result {mae:.4f}")


if __name__ == "__main__":
    main()
