"""Two-tower retrieval with in-batch softmax on synthetic clicks."""
import argparse

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_clicks(seed, n_users=1200, n_items=400, k=6, per_user=14):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n_users, k))
    v = rng.normal(size=(n_items, k))
    pop = rng.normal(scale=0.6, size=n_items)
    logits = 1.6 * u @ v.T + pop
    gumbel = rng.gumbel(size=logits.shape)
    picks = np.argsort(-(logits + gumbel), 1)[:, :per_user]
    picks = rng.permuted(picks, axis=1)
    user_feat = (u @ rng.normal(size=(k, 10)) + 0.5 * rng.normal(size=(n_users, 10))).astype(np.float32)
    item_feat = (v @ rng.normal(size=(k, 12)) + 0.5 * rng.normal(size=(n_items, 12))).astype(np.float32)
    train, test = picks[:, :-2], picks[:, -2:]
    return train, test, torch.from_numpy(user_feat), torch.from_numpy(item_feat)


class Tower(nn.Module):
    def __init__(self, n, feat, dim=16):
        super().__init__()
        self.register_buffer("feat", feat)
        self.emb = nn.Embedding(n, dim)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.mlp = nn.Sequential(nn.Linear(dim + feat.shape[1], 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, ids):
        z = self.mlp(torch.cat([self.emb(ids), self.feat[ids]], dim=1))
        return F.normalize(z, dim=1)


class Retrieval(nn.Module):
    def __init__(self, user_feat, item_feat, log_q, tau=0.12):
        super().__init__()
        self.users = Tower(len(user_feat), user_feat)
        self.items = Tower(len(item_feat), item_feat)
        self.register_buffer("log_q", log_q)
        self.tau = tau

    def loss(self, u, i):
        logits = self.users(u) @ self.items(i).T / self.tau
        logits = logits - self.log_q[i]
        same = (i[None, :] == i[:, None]) & ~torch.eye(len(i), dtype=torch.bool)
        logits = logits.masked_fill(same, -1e9)
        return F.cross_entropy(logits, torch.arange(len(i)))


@torch.no_grad()
def miss_rate(model, train, test, k=20):
    model.eval()
    n_users, n_items = len(train), len(model.log_q)
    scores = model.users(torch.arange(n_users)) @ model.items(torch.arange(n_items)).T / model.tau
    seen = torch.zeros(n_users, n_items, dtype=torch.bool)
    seen.scatter_(1, torch.from_numpy(train), True)
    scores = scores.masked_fill(seen, float("-inf"))
    top = scores.topk(k, dim=1).indices
    hit = (top[:, :, None] == torch.from_numpy(test)[:, None, :]).any(1).float()
    model.train()
    return 1.0 - hit.mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", type=int, nargs="?", default=0)
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    train, test, user_feat, item_feat = make_clicks(args.seed)
    users = torch.arange(len(train)).repeat_interleave(train.shape[1])
    items = torch.from_numpy(train.reshape(-1))
    counts = torch.bincount(items, minlength=len(item_feat)).float() + 1
    model = Retrieval(user_feat, item_feat, (counts / counts.sum()).log())
    loader = DataLoader(TensorDataset(users, items), batch_size=args.batch, shuffle=True, drop_last=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    for epoch in range(args.epochs):
        total = 0.0
        for u, i in loader:
            opt.zero_grad()
            loss = model.loss(u, i)
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 3 == 0 or epoch == args.epochs - 1:
            print(f"epoch {epoch:2d} | loss {total / len(loader):.4f} | miss@20 {miss_rate(model, train, test):.4f}")
    print("result", miss_rate(model, train, test))


if __name__ == "__main__":
    main()
