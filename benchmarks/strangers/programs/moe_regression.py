"""Sparse mixture of experts for a sensor whose response depends on its operating regime."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

REGIMES, FEATURES = 6, 12
HP = dict(experts=8, top_k=2, hidden=24, batch=128, epochs=9, lr=6e-3, balance=0.05)


class Sensor:
    def __init__(self, rng):
        self.rng = rng
        self.centers = rng.normal(0, 2.5, (REGIMES, FEATURES))
        self.a = rng.normal(0, 1, (REGIMES, FEATURES))
        self.b = rng.normal(0, 0.5, (REGIMES, FEATURES))

    def measure(self, regime, n):
        x = self.rng.normal(0, 1, (n, FEATURES))
        y = x @ self.a[regime] + 2 * np.sin(x @ self.b[regime]) + self.rng.normal(0, 0.2, n)
        return (x + self.centers[regime]) * 10 + 40, 5 * y + 100


class Standardizer:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        return self

    def transform(self, x):
        return torch.tensor((x - self.mean) / self.std, dtype=torch.float32)

    def fit_transform(self, x):
        return self.fit(x).transform(x)


class NoisyTopKRouter(nn.Module):
    def __init__(self, d_in, n_experts, k):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(d_in, n_experts)

    def forward(self, x):
        logits = self.gate(x)
        if self.training:
            logits = logits + 0.3 * torch.randn_like(logits)
        probs = logits.softmax(-1)
        weight, chosen = probs.topk(self.k, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        used = F.one_hot(chosen, probs.size(-1)).float().sum(1)
        balance = probs.size(-1) * (used.mean(0) / self.k * probs.mean(0)).sum()
        return weight, chosen, balance


class MixtureOfExperts(nn.Module):
    def __init__(self, d_in, n_experts, k, hidden):
        super().__init__()
        self.router = NoisyTopKRouter(d_in, n_experts, k)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d_in, hidden), nn.Tanh(), nn.Linear(hidden, 1)) for _ in range(n_experts))
        self.register_buffer("load", torch.zeros(n_experts))

    def forward(self, x):
        weight, chosen, balance = self.router(x)
        y = x.new_zeros(len(x), 1)
        for e, expert in enumerate(self.experts):
            row, slot = (chosen == e).nonzero(as_tuple=True)
            if len(row):
                y = y.index_add(0, row, weight[row, slot, None] * expert(x[row]))
        if self.training:
            self.load.mul_(0.98).add_(0.02 * torch.bincount(chosen.flatten(), minlength=len(self.experts)) / chosen.numel())
        return y.squeeze(-1), balance


@torch.no_grad()
def rmse_by_regime(model, tests, x_scaler, y_scaler):
    model.eval()
    table = []
    for x, y in tests:
        pred, _ = model(x_scaler.transform(x))
        pred = pred.numpy() * y_scaler.std + y_scaler.mean
        table.append(float(np.sqrt(np.mean((pred - y) ** 2))))
    model.train()
    return table


def run():
    torch.manual_seed(9)
    rng = np.random.default_rng(9)
    sensor = Sensor(rng)
    train = [sensor.measure(r, 850) for r in range(REGIMES)]
    tests = [sensor.measure(r, 150) for r in range(REGIMES)]
    x = np.concatenate([t[0] for t in train])
    y = np.concatenate([t[1] for t in train])
    x_scaler, y_scaler = Standardizer(), Standardizer()
    dataset = TensorDataset(x_scaler.fit_transform(x), y_scaler.fit_transform(y))
    loader = DataLoader(dataset, batch_size=HP["batch"], shuffle=True, drop_last=True)

    model = MixtureOfExperts(FEATURES, HP["experts"], HP["top_k"], HP["hidden"])
    opt = torch.optim.Adam(model.parameters(), lr=HP["lr"])
    total = HP["epochs"] * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 20) * (1 - s / total))
    for epoch in range(HP["epochs"]):
        fit_sum = bal_sum = 0.0
        for xb, yb in loader:
            pred, balance = model(xb)
            fit = F.mse_loss(pred, yb)
            loss = fit + HP["balance"] * balance
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            fit_sum += fit.item()
            bal_sum += balance.item()
        print(f"epoch {epoch}: mse {fit_sum / len(loader):.4f} balance {bal_sum / len(loader):.3f}")
    print("expert load", [round(v, 3) for v in model.load.tolist()])
    table = rmse_by_regime(model, tests, x_scaler, y_scaler)
    print("rmse by regime", [round(v, 2) for v in table])
    print(f"result {np.mean(table) / y.std():.4f}")


if __name__ == "__main__":
    run()
