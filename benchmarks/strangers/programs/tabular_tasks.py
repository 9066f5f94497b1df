"""Two targets (a price and a return flag) from a table with gaps and categories."""
import sys
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Cfg:
    n_train: int = 4000
    n_val: int = 800
    n_test: int = 2000
    epochs: int = 12
    batch: int = 64
    lr: float = 2e-3
    width: int = 96
    emb: int = 8
    drop: float = 0.1
    cards: list = field(default_factory=lambda: [30, 12, 6])


class World:
    def __init__(self, cfg, rng):
        self.cfg, self.rng = cfg, rng
        self.names = [np.array(rng.permutation([f"c{k}_{i:02d}" for i in range(c)])) for k, c in enumerate(cfg.cards)]
        self.eff_a = [rng.normal(0, 1.0, c) for c in cfg.cards]
        self.eff_b = [rng.normal(0, 1.0, c) for c in cfg.cards]

    def table(self, n, freq_shift=0.0):
        r, cfg = self.rng, self.cfg
        x = r.normal(0, 1, (n, 8)) * np.array([1, 5, 0.2, 20, 1, 3, 1, 1]) + np.array([0, 40, 1, -7, 2, 0, 0, 3])
        z = (x - np.array([0, 40, 1, -7, 2, 0, 0, 3])) / np.array([1, 5, 0.2, 20, 1, 3, 1, 1])
        codes = []
        for c in cfg.cards:
            p = 1.0 / (1 + np.arange(c)) ** 0.6
            codes.append(r.choice(c, n, p=p / p.sum()))
        gone = r.random((n, 8)) < 0.15
        gone[:, 4] = r.random(n) < 0.4
        a = (sum(e[c] for e, c in zip(self.eff_a, codes)) + z[:, 0] * z[:, 1] + z[:, 2] + np.sin(2 * z[:, 3])
             + 1.6 * gone[:, 4] * np.sign(z[:, 0]) + r.normal(0, 0.3, n))
        logit = (1.2 * sum(e[c] for e, c in zip(self.eff_b, codes)) + 1.2 * z[:, 5] - z[:, 0]
                 + 2.0 * (gone[:, 4] - 0.4))
        b = (r.random(n) < 1 / (1 + np.exp(-1.5 * logit))).astype(float)
        x[gone] = np.nan
        price = 120 + 35 * a
        price[r.random(n) < 0.5] = np.nan
        cats = np.stack([nm[c] for nm, c in zip(self.names, codes)], axis=1)
        return x.astype(np.float32), cats, price.astype(np.float32), b.astype(np.float32)


class Preprocess:
    def fit(self, x, cats, price):
        self.mean, self.std = np.nanmean(x, 0), np.nanstd(x, 0)
        self.p_mean, self.p_std = np.nanmean(price), np.nanstd(price)
        self.fit_vocab(cats)
        return self

    def fit_vocab(self, cats):
        self.vocab = []
        for col in cats.T:
            seen = list(dict.fromkeys(col.tolist()))
            self.vocab.append({v: i + 1 for i, v in enumerate(seen)})

    def __call__(self, x, cats, price, flag):
        z = (x - self.mean) / self.std
        missing = np.isnan(z).astype(np.float32)
        z = np.nan_to_num(z, nan=0.0)
        codes = np.stack([[v.get(c, 0) for c in col] for v, col in zip(self.vocab, cats.T)], axis=1)
        p = (price - self.p_mean) / self.p_std
        has = ~np.isnan(p)
        return TensorDataset(torch.tensor(np.concatenate([z, missing], 1), dtype=torch.float32),
                             torch.tensor(codes), torch.tensor(np.where(has, p, 0), dtype=torch.float32),
                             torch.tensor(has, dtype=torch.float32), torch.tensor(flag))


class Net(nn.Module):
    def __init__(self, cfg, n_num):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(c + 1, cfg.emb) for c in cfg.cards])
        d = n_num + cfg.emb * len(cfg.cards)
        self.trunk = nn.Sequential(
            nn.Linear(d, cfg.width), nn.BatchNorm1d(cfg.width), nn.ReLU(), nn.Dropout(cfg.drop),
            nn.Linear(cfg.width, cfg.width), nn.BatchNorm1d(cfg.width), nn.ReLU(), nn.Dropout(cfg.drop))
        self.price = nn.Linear(cfg.width, 1)
        self.flag = nn.Linear(cfg.width, 1)
        self.log_var = nn.Parameter(torch.zeros(2))

    def forward(self, num, cat):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        h = self.trunk(torch.cat([num] + e, dim=1))
        return self.price(h).squeeze(1), self.flag(h).squeeze(1)


def task_losses(net, batch):
    num, cat, price, has, flag = batch
    p, f = net(num, cat)
    reg = (has * (p - price) ** 2).sum() / has.sum().clamp(min=1)
    cls = F.binary_cross_entropy_with_logits(f, flag)
    return reg, cls


def combined(net, reg, cls):
    s = net.log_var
    return torch.exp(-s[0]) * reg + torch.exp(-s[1]) * cls + s.sum() / 2


@torch.no_grad()
def evaluate(net, data):
    net.eval()
    reg, cls = task_losses(net, data.tensors)
    return reg.item(), cls.item()


def train(cfg, seed):
    torch.manual_seed(seed)
    world = World(cfg, np.random.default_rng(seed))
    raw_train, raw_val, raw_test = world.table(cfg.n_train), world.table(cfg.n_val), world.table(cfg.n_test)
    prep = Preprocess().fit(*raw_train[:3])
    train_set = prep(*raw_train)
    val_set, test_set = prep(*raw_val), prep(*raw_test)

    net = Net(cfg, 16)
    loader = DataLoader(train_set, batch_size=cfg.batch, shuffle=True, drop_last=True)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg.lr * 2, total_steps=cfg.epochs * len(loader))
    for epoch in range(cfg.epochs):
        net.train()
        run = []
        for batch in loader:
            reg, cls = task_losses(net, batch)
            loss = combined(net, reg, cls)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            run.append((reg.item(), cls.item()))
        if epoch % 3 == 0 or epoch == cfg.epochs - 1:
            tr, va = np.mean(run, 0), evaluate(net, val_set)
            print(f"epoch {epoch}: train price {tr[0]:.3f} flag {tr[1]:.3f} | val price {va[0]:.3f} flag {va[1]:.3f}")
    reg, cls = evaluate(net, test_set)
    print(f"test price mse {reg:.4f}, flag log loss {cls:.4f}")
    print(f"result {reg + cls:.4f}")


if __name__ == "__main__":
    train(Cfg(), int(sys.argv[1]) if len(sys.argv) > 1 else 0)
