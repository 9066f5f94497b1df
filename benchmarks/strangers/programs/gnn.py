"""Graph classification with a GIN written by hand: topology (hub-like / lattice-like) x type mixing (like / unlike neighbours)."""
import json
import random
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Config:
    n_train: int = 1200
    n_test: int = 500
    hidden: int = 32
    layers: int = 3
    dropout: float = 0.3
    batch_size: int = 48
    epochs: int = 26
    lr: float = 3e-3


def hub_edges(n, m=2):
    edges, pool = [(0, 1)], [0, 1]
    for v in range(2, n):
        for u in {random.choice(pool) for _ in range(m)}:
            edges.append((u, v))
            pool += [u, v]
    return edges


def lattice_edges(n, p=0.25):
    e = set()
    for v in range(n):
        for k in (1, 2):
            u = (v + k) % n if random.random() > p else random.randrange(n)
            if u != v:
                e.add((min(u, v), max(u, v)))
    return list(e)


def make_graph():
    y = random.randrange(4)
    n = random.randint(14, 30)
    edges = hub_edges(n) if y % 2 == 0 else lattice_edges(n)
    nbrs = [[] for _ in range(n)]
    for u, v in edges:
        nbrs[u].append(v)
        nbrs[v].append(u)
    kind = [random.randrange(3) for _ in range(n)]
    for _ in range(2):
        for v in range(n):
            if nbrs[v] and random.random() < 0.45:
                k = kind[random.choice(nbrs[v])]
                kind[v] = k if y < 2 else (k + random.choice((1, 2))) % 3
    perm = list(range(n))
    random.shuffle(perm)
    ei = torch.tensor([(perm[u], perm[v]) for u, v in edges]).t()
    ei = torch.cat([ei, ei.flip(0)], 1)
    x = torch.zeros(n, 3)
    for v in range(n):
        x[perm[v], kind[v]] = 1.0
    return x + 0.1 * torch.randn(n, 3), ei, y


def collate(graphs):
    xs, eis, ids, off = [], [], [], 0
    for i, (x, ei, _) in enumerate(graphs):
        xs.append(x)
        eis.append(ei + off)
        ids.append(torch.full((len(x),), i))
        off += len(x)
    return torch.cat(xs), torch.cat(eis, 1), torch.cat(ids), torch.tensor([g[2] for g in graphs])


class GINLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(d_in, d_out), nn.BatchNorm1d(d_out), nn.ReLU(), nn.Linear(d_out, d_out))

    def forward(self, x, edge_index):
        src, dst = edge_index
        agg = torch.zeros_like(x)
        agg.index_add_(0, dst, x[src])
        return self.mlp((1 + self.eps) * x + agg)


class GIN(nn.Module):
    def __init__(self, cfg, d_in=3, n_classes=4):
        super().__init__()
        self.cfg = cfg
        dims = [d_in] + [cfg.hidden] * cfg.layers
        self.convs = nn.ModuleList([GINLayer(a, b) for a, b in zip(dims[:-1], dims[1:])])
        self.lin1 = nn.Linear(cfg.hidden * cfg.layers, cfg.hidden)
        self.lin2 = nn.Linear(cfg.hidden, n_classes)

    def readout(self, h, batch, n_graphs):
        out = torch.zeros(n_graphs, h.size(1)).index_add_(0, batch, h)
        cnt = torch.bincount(batch, minlength=n_graphs).clamp(min=1).unsqueeze(1)
        return out / cnt

    def forward(self, x, edge_index, batch, n_graphs):
        pooled = []
        for conv in self.convs:
            x = F.relu(conv(x, edge_index))
            pooled.append(self.readout(x, batch, n_graphs))
        h = F.relu(self.lin1(torch.cat(pooled, 1)))
        h = F.dropout(h, self.cfg.dropout, training=self.training)
        return self.lin2(h)


def run_epoch(model, graphs, cfg, optimizer):
    model.train()
    order = torch.randperm(len(graphs)).tolist()
    tot = hit = 0
    for i in range(0, len(order), cfg.batch_size):
        x, ei, b, y = collate([graphs[j] for j in order[i:i + cfg.batch_size]])
        logits = model(x, ei, b, len(y))
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tot += loss.item() * len(y)
        hit += (logits.argmax(1) == y).sum().item()
    return tot / len(graphs), hit / len(graphs)


@torch.no_grad()
def accuracy(model, graphs, bs=100):
    model.eval()
    hit = 0
    for i in range(0, len(graphs), bs):
        x, ei, b, y = collate(graphs[i:i + bs])
        hit += (model(x, ei, b, len(y)).argmax(1) == y).sum().item()
    return hit / len(graphs)


if __name__ == "__main__":
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    cfg = Config()
    train_set = [make_graph() for _ in range(cfg.n_train)]
    test_set = [make_graph() for _ in range(cfg.n_test)]
    model = GIN(cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.4)
    for epoch in range(1, cfg.epochs + 1):
        loss, acc = run_epoch(model, train_set, cfg, optimizer)
        scheduler.step()
        if epoch % 5 == 1:
            print(f"[{epoch:02d}] loss={loss:.3f} train_acc={acc:.3f}")
    acc = accuracy(model, test_set)
    print("RESULT " + json.dumps({"metric": "test_accuracy", "value": round(acc, 4), "better": "higher"}))
