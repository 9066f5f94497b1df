import sys, random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


# ---------------------------------------------------------------- data
def make_graph(rng):
    n = int(rng.integers(8, 20))
    kind = rng.integers(0, 4, n)
    adj = rng.random((n, n)) < 2.2 / n
    np.fill_diagonal(adj, False)
    src, dst = np.nonzero(adj)
    a, b, c = (kind == 0).astype(float), (kind == 1), (kind == 2).astype(float)
    into = adj.T @ a
    outof = adj @ c
    score = float((into * outof)[b].sum() + 0.5 * into[b].sum() - 0.35 * outof[kind == 3].sum())
    return dict(n=n, kind=torch.tensor(kind), src=torch.tensor(src), dst=torch.tensor(dst), score=score)


def make_dataset(count, rng):
    graphs = [make_graph(rng) for _ in range(count)]
    return graphs


def collate(graphs):
    kind, src, dst, owner, label = [], [], [], [], []
    offset = 0
    for gi, g in enumerate(graphs):
        kind.append(g["kind"])
        src.append(g["src"] + offset)
        dst.append(g["dst"] + offset)
        owner.append(torch.full((g["n"],), gi))
        label.append(g["label"])
        offset += g["n"]
    return (torch.cat(kind), torch.cat(src), torch.cat(dst), torch.cat(owner), len(graphs),
            torch.tensor(label))


# ---------------------------------------------------------------- model
class Conv(nn.Module):
    def __init__(self, dim, drop):
        super().__init__()
        self.msg = nn.Linear(dim, dim)
        self.upd = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.norm = nn.LayerNorm(dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x, src, dst):
        m = F.relu(self.msg(x))[src]
        agg = torch.zeros_like(x).index_add_(0, dst, m)
        return x + self.drop(self.norm(self.upd(torch.cat([x, agg], dim=1))))


class GraphNet(nn.Module):
    def __init__(self, kinds=4, dim=40, depth=3, classes=3, drop=0.05):
        super().__init__()
        self.embed = nn.Embedding(kinds, dim)
        self.convs = nn.ModuleList([Conv(dim, drop) for _ in range(depth)])
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, classes))

    def forward(self, kind, src, dst, owner, num_graphs):
        x = self.embed(kind)
        for conv in self.convs:
            x = conv(x, src, dst)
        pooled = torch.zeros(num_graphs, x.shape[1]).index_add_(0, owner, x)
        return self.head(pooled / 5.0)


# ---------------------------------------------------------------- training
class Trainer:
    def __init__(self, model, train, val, lr=3e-3, epochs=14, batch=40):
        self.model, self.train_set, self.val_set = model, train, val
        self.epochs, self.batch = epochs, batch
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-3)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=5, gamma=0.4)

    def run_epoch(self):
        self.model.train()
        order = list(range(len(self.train_set)))
        random.shuffle(order)
        total = 0.0
        for i in range(0, len(order), self.batch):
            *inputs, y = collate([self.train_set[j] for j in order[i:i + self.batch]])
            loss = F.cross_entropy(self.model(*inputs), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(y)
        self.sched.step()
        return total / len(order)

    @torch.no_grad()
    def evaluate(self, data):
        self.model.eval()
        loss, hit = 0.0, 0
        for i in range(0, len(data), 100):
            *inputs, y = collate(data[i:i + 100])
            out = self.model(*inputs)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            hit += (out.argmax(1) == y).sum().item()
        return loss / len(data), hit / len(data)

    def fit(self):
        for ep in range(self.epochs):
            tr = self.run_epoch()
            if ep % 2 == 1:
                vl, acc = self.evaluate(self.val_set)
                print(f"epoch {ep + 1:2d} train {tr:.4f} val {vl:.4f} acc {acc:.3f}")


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train, val, test = make_dataset(1200, rng), make_dataset(300, rng), make_dataset(600, rng)
    lo, hi = np.quantile([g["score"] for g in train], [1 / 3, 2 / 3])
    for g in train + val + test:
        g["label"] = int(g["score"] > lo) + int(g["score"] > hi)
    trainer = Trainer(GraphNet(), train, val)
    trainer.fit()
    loss, acc = trainer.evaluate(test)
    print(f"test accuracy {acc:.3f}")
    print(f"result {loss:.4f}")


if __name__ == "__main__":
    main()
