import json
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import TensorDataset, DataLoader

torch.set_num_threads(1)
SEED = 17
torch.manual_seed(SEED)


def make_cohort(n, seed):
    """columns 0..11 covariates, 12 follow-up (months), 13 event observed (1) or censored (0)"""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 12))
    x[:, 3] = (x[:, 3] > 0.3)
    log_h = 1.1 * x[:, 0] + 0.9 * x[:, 1] * x[:, 3] - 0.8 * np.abs(x[:, 2]) + 0.5 * np.tanh(2 * x[:, 4])
    t_event = rng.weibull(1.4, n) * np.exp(-log_h / 1.4) * 30
    log_c = 1.3 * x[:, 5] - 1.0 * x[:, 0] + 0.8 * x[:, 6]
    t_cens = rng.exponential(1.0, n) * np.exp(-log_c) * 30
    t = np.minimum(t_event, t_cens)
    e = (t_event <= t_cens).astype(float)
    return np.column_stack([x, t, e]).astype(np.float32)


class RiskNet(nn.Module):
    def __init__(self, n_in, width=64, p=0.2):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(p),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(p),
        )
        self.out = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


class CoxPHLoss(nn.Module):
    def forward(self, log_h, durations, events):
        idx = durations.sort(descending=True)[1]
        events = events[idx]
        log_h = log_h[idx]
        log_risk = torch.logcumsumexp(log_h, dim=0)
        return -((log_h - log_risk) * events).sum() / events.sum().clamp(min=1)


def concordance(risk, t, e):
    risk, t, e = map(np.asarray, (risk, t, e))
    later = (t[None, :] > t[:, None]) & (e[:, None] == 1)
    gt = risk[:, None] > risk[None, :]
    eq = risk[:, None] == risk[None, :]
    return float((later & gt).sum() + 0.5 * (later & eq).sum()) / float(later.sum())


class Trainer:
    def __init__(self, model, lr=2e-3, epochs=30):
        self.model = model
        self.loss_fn = CoxPHLoss()
        self.epochs = epochs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 10, 0.4)

    def fit(self, loader, valid):
        for ep in range(self.epochs):
            self.model.train()
            total = 0.0
            for x, t, e in loader:
                self.optimizer.zero_grad()
                loss = self.loss_fn(self.model(x), t, e)
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            self.scheduler.step()
            if ep % 5 == 0 or ep == self.epochs - 1:
                print(f"[{ep:02d}] partial nll {total / len(loader):.4f}  valid C {self.score(*valid):.4f}")

    @torch.no_grad()
    def score(self, x, t, e):
        self.model.eval()
        return concordance(self.model(x).numpy().ravel(), t, e)


def prepare(cohort, stats=None):
    cov = cohort[:, :12]
    if stats is None:
        stats = cov.mean(0), cov.std(0) + 1e-6
    x = (cov - stats[0]) / stats[1]
    return torch.from_numpy(x), torch.from_numpy(cohort[:, 12]), torch.from_numpy(cohort[:, 13]), stats


x, t, e, stats = prepare(make_cohort(4800, 1))
xv, tv, ev, _ = prepare(make_cohort(600, 2), stats)
xs, ts, es, _ = prepare(make_cohort(1500, 3), stats)
print(f"train {len(x)} patients, {e.mean().item():.0%} events")

loader = DataLoader(TensorDataset(x, t, e), batch_size=128, shuffle=True, drop_last=True)
model = RiskNet(x.shape[1])
trainer = Trainer(model)
trainer.fit(loader, (xv, tv, ev))
print("RESULT " + json.dumps({"metric": "c_index", "value": trainer.score(xs, ts, es), "better": "higher"}))
