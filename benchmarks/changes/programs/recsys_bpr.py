"""Sequential recommender: attention over the user's history, BPR loss with sampled negatives."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

cfg = {
    "n_users": 600,
    "n_items": 300,
    "history": 12,
    "dim": 48,
    "lr": 3e-3,
    "weight_decay": 1e-6,
    "batch_size": 256,
    "n_neg": 4,
    "epochs": 10,
    "seed": 21,
}


def simulate(cfg):
    """Log of (user, item code) in time order; item codes are catalogue numbers such as 70431."""
    rng = np.random.default_rng(cfg["seed"])
    n = cfg["n_items"]
    codes = rng.choice(np.arange(10000, 99999), n, replace=False)
    genre = rng.integers(0, 10, n)
    price = np.exp(rng.normal(3.5, 0.9, n))
    weight = rng.zipf(1.6, n).clip(1, 50).astype(float)
    logs = []
    for _ in range(cfg["n_users"]):
        taste = rng.integers(0, 10)
        seq = []
        for _ in range(rng.integers(6, 30)):
            if rng.random() < 0.15:
                taste = (taste + 1) % 10
            p = weight * np.where(genre == taste, 12.0, 0.2)
            seq.append(int(codes[rng.choice(n, p=p / p.sum())]))
        logs.append(seq)
    return logs, dict(zip(codes.tolist(), price.tolist()))


def build_vocab(logs):
    seen = sorted({code for seq in logs for code in seq})
    return {code: i + 1 for i, code in enumerate(seen)}  # 0 is padding


def pad_left(items, length):
    items = items[-length:]
    return [0] * (length - len(items)) + items


def make_examples(logs, vocab, history, last_only):
    hist, target = [], []
    for seq in logs:
        ids = [vocab[c] for c in seq if c in vocab]
        positions = [len(ids) - 1] if last_only else range(1, len(ids) - 1)
        for t in positions:
            hist.append(pad_left(ids[:t], history))
            target.append(ids[t])
    return torch.tensor(hist), torch.tensor(target)


class Recommender(nn.Module):
    def __init__(self, n_items, dim, item_price):
        super().__init__()
        self.item_emb = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.item_bias = nn.Embedding(n_items + 1, 1, padding_idx=0)
        self.query = nn.Linear(dim, 1)
        self.price_proj = nn.Linear(1, dim)
        self.user_mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.register_buffer("price", item_price)
        nn.init.normal_(self.item_emb.weight, std=0.05)
        nn.init.zeros_(self.item_bias.weight)

    def items(self, ids):
        return self.item_emb(ids) + self.price_proj(self.price[ids].unsqueeze(-1))

    def user(self, hist):
        h = self.items(hist)
        att = self.query(torch.tanh(h)).squeeze(-1)
        att = att.masked_fill(hist == 0, -1e9)
        w = torch.softmax(att, dim=1)
        return self.user_mlp((w.unsqueeze(-1) * h).sum(1))

    def score(self, u, ids):
        return (u.unsqueeze(1) * self.items(ids)).sum(-1) + self.item_bias(ids).squeeze(-1)


@torch.no_grad()
def hit_rate(model, hist, target, n_items, k=10):
    model.eval()
    every = torch.arange(1, n_items + 1).expand(len(hist), -1)
    top = model.score(model.user(hist), every).topk(k, dim=1).indices + 1
    return (top == target.unsqueeze(1)).any(1).float().mean().item()


torch.manual_seed(cfg["seed"])
logs, price_of = simulate(cfg)
vocab = build_vocab(logs)
n_items = len(vocab)
log_price = torch.zeros(n_items + 1)
for code, i in vocab.items():
    log_price[i] = np.log(price_of[code])
item_price = (log_price - log_price[1:].mean()) / log_price[1:].std()

train_hist, train_target = make_examples(logs, vocab, cfg["history"], last_only=False)
test_hist, test_target = make_examples(logs, vocab, cfg["history"], last_only=True)

model = Recommender(n_items, cfg["dim"], item_price)
opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
neg_rng = torch.Generator().manual_seed(cfg["seed"])

for epoch in range(cfg["epochs"]):
    model.train()
    losses = []
    for rows in torch.randperm(len(train_hist)).split(cfg["batch_size"]):
        hist, pos = train_hist[rows], train_target[rows]
        neg = torch.randint(1, n_items + 1, (len(rows), cfg["n_neg"]), generator=neg_rng)
        u = model.user(hist)
        pos_score = model.score(u, pos.unsqueeze(1))
        neg_score = model.score(u, neg)
        loss = -F.logsigmoid(pos_score - neg_score).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print("epoch", epoch, "bpr", round(float(np.mean(losses)), 4),
          "HR@10", round(hit_rate(model, test_hist, test_target, n_items), 4))
