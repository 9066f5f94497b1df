"""DeepSurv-style Cox network for time to relapse, minibatch partial likelihood, Breslow baseline."""
import numpy as np
import torch
from torch import nn

SEED = 21
N, P = 3000, 14
BATCH, EPOCHS = 128, 20


def cohort(n, rng):
    age = rng.normal(62, 11, n)
    marker = rng.lognormal(4.0, 0.9, n)
    stage = rng.integers(0, 4, n)
    noise = rng.normal(size=(n, P - 7)) * rng.uniform(0.5, 30, P - 7)
    dose = rng.uniform(0, 80, n)
    treated = rng.integers(0, 2, n)
    x = np.column_stack([age, marker, (stage == 1), (stage == 2), (stage == 3), dose, treated, noise]).astype(np.float32)
    lp = (0.05 * np.abs(age - 60) + 0.7 * (np.log(marker) - 4) + 0.5 * stage
          - treated * (0.9 - 0.03 * np.abs(dose - 40)))
    t_event = 30.0 * (rng.exponential(size=n) / np.exp(1.3 * (lp - lp.mean()))) ** (1 / 1.4)
    t_cens = np.minimum(rng.exponential(45.0, n), 60.0)
    time = np.minimum(t_event, t_cens)
    return x, time.astype(np.float32), (t_event <= t_cens).astype(np.float32)


class Standardiser:
    def fit(self, x):
        self.mu, self.sd = x.mean(0), x.std(0) + 1e-6
        return self

    def __call__(self, x):
        return torch.from_numpy((x - self.mu) / self.sd)


class RiskNet(nn.Module):
    def __init__(self, p, width=48, drop=0.2):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(p, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(drop),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(drop),
            nn.Linear(width, 1, bias=False),
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def neg_partial_log_likelihood(risk, time, event):
    # at risk are all whose time is not before mine; times are continuous, ties do not occur
    order = torch.argsort(time, descending=True)
    risk, event = risk[order], event[order]
    log_at_risk = torch.logcumsumexp(risk, dim=0)
    return -((risk - log_at_risk) * event).sum() / event.sum().clamp(min=1.0)


def concordance(risk, time, event):
    """Harrell's C: a pair counts when the shorter of its two times is an event."""
    earlier = (time[:, None] < time[None, :]) & (event[:, None] == 1)
    higher = (risk[:, None] > risk[None, :]) + 0.5 * (risk[:, None] == risk[None, :])
    return float((higher * earlier).sum() / earlier.sum())


def breslow_survival(risk_tr, t_tr, e_tr, risk_te, horizon):
    hazard = 0.0
    for t in np.unique(t_tr[(e_tr == 1) & (t_tr <= horizon)]):
        hazard += ((t_tr == t) & (e_tr == 1)).sum() / np.exp(risk_tr[t_tr >= t]).sum()
    return np.exp(-hazard * np.exp(risk_te))


def censoring_survival(t, e, at):
    """Kaplan-Meier of the censoring time, as a lookup for inverse weights."""
    grid = np.unique(t)
    s, km = 1.0, []
    for g in grid:
        s *= 1 - ((t == g) & (e == 0)).sum() / (t >= g).sum()
        km.append(s)
    pos = np.searchsorted(grid, at, side="right") - 1
    return np.where(pos < 0, 1.0, np.array(km)[np.clip(pos, 0, None)]).clip(0.05)


def brier(surv, t, e, horizon, t_tr, e_tr):
    died = (t <= horizon) & (e == 1)
    alive = t > horizon
    w_died = 1 / censoring_survival(t_tr, e_tr, t - 0.01)
    w_alive = 1 / censoring_survival(t_tr, e_tr, np.array([horizon]))
    return float((died * w_died * surv ** 2 + alive * w_alive * (1 - surv) ** 2).mean())


def predict(net, x):
    net.eval()
    with torch.no_grad():
        out = net(x).numpy()
    net.train()
    return out


def run():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    x, t, e = cohort(N, rng)
    cut = np.argsort(rng.random(N))
    tr, va, te = cut[:2000], cut[2000:2400], cut[2400:]
    std = Standardiser().fit(x[tr])
    xs = {k: std(x[i]) for k, i in (("tr", tr), ("va", va), ("te", te))}
    print(f"events {e.mean():.2f}, median follow-up {np.median(t):.1f} months")

    net = RiskNet(P)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)
    time_tr, event_tr = torch.from_numpy(t[tr]), torch.from_numpy(e[tr])
    best, best_state = -1.0, None
    for epoch in range(EPOCHS):
        perm = torch.randperm(len(tr))
        losses = []
        for idx in perm.split(BATCH):
            risk = net(xs["tr"][idx])
            loss = neg_partial_log_likelihood(risk, time_tr[idx], event_tr[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        sched.step()
        c_val = concordance(predict(net, xs["va"]), t[va], e[va])
        if c_val > best:
            best, best_state = c_val, {k: v.clone() for k, v in net.state_dict().items()}
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} val C {c_val:.4f} lr {sched.get_last_lr()[0]:.2e}")

    net.load_state_dict(best_state)
    risk_tr, risk_te = predict(net, xs["tr"]), predict(net, xs["te"])
    surv = breslow_survival(risk_tr, t[tr], e[tr], risk_te, horizon=24.0)
    bs = brier(surv, t[te], e[te], 24.0, t[tr], e[tr])
    c = concordance(risk_te, t[te], e[te])
    print(f"test C {c:.4f}  Brier at 24 months {bs:.4f}")
    print("result", round(1.0 - c + bs, 4))


if __name__ == "__main__":
    run()
