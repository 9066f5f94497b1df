# Two-tower retrieval: user history + country -> item, in-batch sampled softmax with logQ correction.
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
np.random.seed(0)

N_USERS, N_ITEMS, N_GENRES, N_COUNTRIES = 2500, 600, 12, 6
MAX_HIST, DIM, BATCH, EPOCHS = 12, 32, 256, 6
TEMPERATURE = 0.1
PAD = 0  # item ids run from 1 to N_ITEMS


def simulate_log():
    genre = np.random.randint(N_GENRES, size=N_ITEMS)
    popularity = 1.0 / (np.arange(N_ITEMS) + 5.0) ** 0.8
    np.random.shuffle(popularity)
    country = np.random.randint(N_COUNTRIES, size=N_USERS)
    country_taste = np.random.randn(N_COUNTRIES, N_GENRES)
    logs = []
    for u in range(N_USERS):
        taste = 1.5 * np.random.randn(N_GENRES) + country_taste[country[u]]
        p = popularity * np.exp(taste[genre])
        n = np.random.randint(5, MAX_HIST + 2)
        logs.append(np.random.choice(N_ITEMS, size=n, replace=False, p=p / p.sum()) + 1)
    return logs, country, genre


def pad(seq):
    out = np.zeros(MAX_HIST, dtype=np.int64)
    seq = seq[-MAX_HIST:]
    out[: len(seq)] = seq
    return out


class NextItem(Dataset):
    """The last click of every user is kept for the test; all clicks before it can be targets."""

    def __init__(self, logs, country):
        self.rows = []
        for u, seq in enumerate(logs):
            seq = seq[:-1]
            for k in range(2, len(seq)):
                self.rows.append((pad(seq[:k]), country[u], seq[k]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        h, c, t = self.rows[i]
        return torch.from_numpy(h), int(c), int(t)


class UserTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS + 1, DIM, padding_idx=PAD)
        self.country = nn.Embedding(N_COUNTRIES, 8)
        self.mlp = nn.Sequential(nn.Linear(DIM + 8, 64), nn.ReLU(), nn.Linear(64, DIM))

    def forward(self, hist, country):
        mask = (hist != PAD).float().unsqueeze(-1)
        pooled = (self.items(hist) * mask).sum(1) / mask.sum(1).clamp(min=1)
        out = self.mlp(torch.cat([pooled, self.country(country)], -1))
        return F.normalize(out, dim=-1)


class ItemTower(nn.Module):
    def __init__(self, genre):
        super().__init__()
        self.register_buffer("genre", torch.from_numpy(np.concatenate([[0], genre])))
        self.ids = nn.Embedding(N_ITEMS + 1, DIM, padding_idx=PAD)
        self.genres = nn.Embedding(N_GENRES, 8)
        self.mlp = nn.Sequential(nn.Linear(DIM + 8, 64), nn.ReLU(), nn.Linear(64, DIM))

    def forward(self, item):
        x = torch.cat([self.ids(item), self.genres(self.genre[item])], -1)
        return F.normalize(self.mlp(x), dim=-1)


def sampled_softmax(u, v, items, log_q):
    logits = u @ v.t() / TEMPERATURE - log_q[items]
    same = (items[:, None] == items[None, :]) & ~torch.eye(len(items), dtype=torch.bool)
    logits = logits.masked_fill(same, -1e9)
    return F.cross_entropy(logits, torch.arange(len(items)))


@torch.no_grad()
def evaluate(user_tower, item_tower, logs, country, k=20):
    user_tower.eval(), item_tower.eval()
    hist = torch.from_numpy(np.stack([pad(s[:-1]) for s in logs]))
    target = torch.tensor([int(s[-1]) for s in logs])
    catalogue = item_tower(torch.arange(1, N_ITEMS + 1))
    scores = user_tower(hist, torch.from_numpy(country)) @ catalogue.t()
    for row, s in enumerate(logs):
        scores[row, s[:-1] - 1] = -10.0
    own = scores.gather(1, (target - 1)[:, None])
    rank = (scores > own).sum(1)
    user_tower.train(), item_tower.train()
    return (rank < k).float().mean().item(), (1.0 / (rank + 1.0)).mean().item()


def main():
    logs, country, genre = simulate_log()
    data = NextItem(logs, country)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True)
    counts = np.bincount([r[2] for r in data.rows], minlength=N_ITEMS + 1) + 1.0
    log_q = torch.tensor(np.log(counts / counts.sum()), dtype=torch.float32)

    users, items = UserTower(), ItemTower(genre)
    params = list(users.parameters()) + list(items.parameters())
    opt = torch.optim.Adam(params, lr=3e-3)
    total, step = EPOCHS * len(loader), 0
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=6e-3, total_steps=total)
    print(len(data), "rows,", total, "steps")
    for epoch in range(EPOCHS):
        running = 0.0
        for hist, c, t in loader:
            loss = sampled_softmax(users(hist, c), items(t), t, log_q)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
            step += 1
        if epoch % 2 == 1:
            recall, mrr = evaluate(users, items, logs, country)
            print(f"epoch {epoch} loss {running / len(loader):.3f} recall@20 {recall:.3f} mrr {mrr:.3f}")
    recall, mrr = evaluate(users, items, logs, country)
    print(f"random recall@20 would be {20 / N_ITEMS:.3f}")
    print("result", round(1.0 - recall, 4))


if __name__ == "__main__":
    main()
