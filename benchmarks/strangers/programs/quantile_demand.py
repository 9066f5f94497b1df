"""Multi-horizon quantile forecasting of store demand with past-only and known-future covariates."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

QUANTILES = (0.1, 0.5, 0.9)


def simulate_panel(n_series, length, rng):
    """Demand with weekly season, promotions (known ahead) and temperature (known only up to now)."""
    day = np.arange(length)
    promo = (rng.random((n_series, length)) < 0.15).astype(np.float32)
    temp = np.zeros((n_series, length), np.float32)
    level = np.zeros((n_series, length), np.float32)
    for t in range(1, length):
        temp[:, t] = 0.9 * temp[:, t - 1] + 0.4 * rng.standard_normal(n_series)
        level[:, t] = 0.98 * level[:, t - 1] + 0.08 * rng.standard_normal(n_series)
    weekday = (day[None, :] + rng.integers(0, 7, (n_series, 1))) % 7
    profile = np.array([0.0, -0.4, -0.3, 0.0, 0.5, 1.2, 0.8], np.float32)
    lift = rng.uniform(0.8, 2.0, (n_series, 1))
    mean = 2.0 + level + profile[weekday] + lift * promo + 0.5 * np.roll(temp, 2, axis=1)
    noise = rng.standard_normal((n_series, length)) * (0.15 + 0.35 * promo)
    scale = np.exp(rng.normal(2.0, 1.0, (n_series, 1)))
    demand = scale * (mean + noise)
    return demand.astype(np.float32), promo, temp, weekday


class PanelWindows(Dataset):
    """Windows whose forecast origin lies in [first, last)."""

    def __init__(self, panel, context, horizon, first, last, stride, fit_end):
        self.demand, self.promo, self.temp, weekday = panel
        self.weekday = np.eye(7, dtype=np.float32)[weekday]
        self.context, self.horizon = context, horizon
        history = self.demand[:, :fit_end]
        self.mean = history.mean(axis=1)
        self.std = history.std(axis=1) + 1e-6
        self.index = [(s, o) for s in range(len(self.demand)) for o in range(first, last, stride)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        s, origin = self.index[i]
        past = slice(origin - self.context, origin)
        future = slice(origin, origin + self.horizon)
        y = (self.demand[s] - self.mean[s]) / self.std[s]
        observed = np.stack([y[past], self.temp[s, past], self.promo[s, past]], axis=1)
        observed = np.concatenate([observed, self.weekday[s, past]], axis=1)
        known = np.concatenate([self.promo[s, future, None], self.weekday[s, future]], axis=1)
        return observed, known, y[future]


class GatedResidual(nn.Module):
    def __init__(self, width, dropout=0.05):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 2 * width), nn.Dropout(dropout))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + nn.functional.glu(self.body(x), dim=-1))


class QuantileForecaster(nn.Module):
    def __init__(self, n_observed, n_known, width=48):
        super().__init__()
        self.encoder = nn.GRU(n_observed, width, batch_first=True)
        self.known_proj = nn.Linear(n_known, width)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.fuse = nn.Linear(2 * width, width)
        self.grn = GatedResidual(width)
        self.head = nn.Linear(width, len(QUANTILES))

    def forward(self, observed, known):
        memory, state = self.encoder(observed)
        steps, _ = self.decoder(self.known_proj(known), state)
        scores = self.query(steps) @ self.key(memory).transpose(1, 2) / steps.shape[-1] ** 0.5
        attended = scores.softmax(dim=-1) @ memory
        out = self.head(self.grn(self.fuse(torch.cat([steps, attended], dim=-1))))
        low, mid, high = out.unbind(-1)
        return torch.stack([mid - nn.functional.softplus(low), mid, mid + nn.functional.softplus(high)], dim=-1)


def pinball(pred, target, quantiles):
    error = target.unsqueeze(-1) - pred
    return torch.maximum(quantiles * error, (quantiles - 1) * error).mean()


class Trainer:
    def __init__(self, model, lr, steps):
        self.model, self.steps = model, steps
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-3)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)
        self.quantiles = torch.tensor(QUANTILES)

    def fit(self, loader):
        step = 0
        while step < self.steps:
            for observed, known, target in loader:
                self.model.train()
                loss = pinball(self.model(observed, known), target, self.quantiles)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.scheduler.step()
                step += 1
                if step % 50 == 0:
                    print(f"step {step} pinball {loss.item():.4f}")
                if step >= self.steps:
                    return

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        preds, targets = [], []
        for observed, known, target in loader:
            preds.append(self.model(observed, known))
            targets.append(target)
        preds, targets = torch.cat(preds), torch.cat(targets)
        inside = ((targets > preds[..., 0]) & (targets < preds[..., 2])).float().mean().item()
        print(f"coverage of the 80% interval {inside:.3f}")
        return pinball(preds, targets, self.quantiles).item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=6e-3)
    parser.add_argument("--context", type=int, default=28)
    parser.add_argument("--horizon", type=int, default=7)
    parser.add_argument("--train-end", type=int, default=300)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    panel = simulate_panel(n_series=60, length=400, rng=np.random.default_rng(args.seed))
    common = dict(panel=panel, context=args.context, horizon=args.horizon, fit_end=args.train_end)
    train = PanelWindows(**common, first=args.context, last=args.train_end - args.horizon, stride=1)
    test = PanelWindows(**common, first=args.train_end, last=400 - args.horizon, stride=5)
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=256)

    model = QuantileForecaster(n_observed=10, n_known=8)
    trainer = Trainer(model, args.lr, args.steps)
    trainer.fit(train_loader)
    print(f"result {trainer.evaluate(test_loader):.5f}")
