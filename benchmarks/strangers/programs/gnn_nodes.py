import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
rng = np.random.default_rng(seed)

# ---- citation-like graph: communities, few edges, noisy word features ----
N, C, D = 3000, 6, 40
y = rng.integers(0, C, N)
centers = rng.normal(size=(C, D))
x = 0.28 * centers[y] + rng.normal(size=(N, D))
active = rng.random(N) > 0.03
by_class = [np.flatnonzero((y == c) & active) for c in range(C)]
src, dst = [], []
for i in np.flatnonzero(active):
    for _ in range(rng.integers(1, 4)):
        c = y[i] if rng.random() < 0.75 else rng.integers(0, C)
        src.append(i)
        dst.append(rng.choice(by_class[c]))
edges = np.stack([src, dst])

order = rng.permutation(N)
rank = np.argsort(order)
x, y, edges = x[order], y[order], rank[edges]

x = torch.tensor(x, dtype=torch.float32)
y = torch.tensor(y)
e = torch.tensor(edges)
e = torch.cat([e, e.flip(0)], dim=1)
split = torch.from_numpy(rng.permutation(N))
train_idx, val_idx, test_idx = split[:600], split[600:1200], split[1200:]
x = (x - x[train_idx].mean(0)) / x[train_idx].std(0)


class MeanConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.self_lin = nn.Linear(d_in, d_out)
        self.nbr_lin = nn.Linear(d_in, d_out, bias=False)

    def forward(self, h, edge):
        s, t = edge
        agg = torch.zeros_like(h).index_add_(0, t, h[s])
        deg = torch.zeros(h.size(0)).index_add_(0, t, torch.ones(t.numel()))
        agg = agg / deg.clamp(min=1.0).unsqueeze(1)
        return self.self_lin(h) + self.nbr_lin(agg)


class Net(nn.Module):
    def __init__(self, hidden=48, p=0.6):
        super().__init__()
        self.c1 = MeanConv(D, hidden)
        self.c2 = MeanConv(hidden, hidden)
        self.out = nn.Linear(hidden, C)
        self.p = p

    def forward(self, x, edge):
        x = F.dropout(x, self.p / 2, self.training)
        h = F.relu(self.c1(x, edge))
        h = F.dropout(h, self.p, self.training)
        h = F.relu(self.c2(h, edge))
        h = F.dropout(h, self.p, self.training)
        return self.out(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=1e-3)


def error(idx):
    net.eval()
    with torch.no_grad():
        wrong = (net(x, e)[idx].argmax(1) != y[idx]).float().mean().item()
    return wrong


best_val, best_state = 1.0, None
for epoch in range(320):
    net.train()
    logits = net(x, e)
    loss = F.cross_entropy(logits[train_idx], y[train_idx])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 10 == 9:
        v = error(val_idx)
        if v < best_val:
            best_val = v
            best_state = {k: t.clone() for k, t in net.state_dict().items()}
        if epoch % 60 == 59:
            print(f"epoch {epoch + 1} loss {loss.item():.4f} val error {v:.4f}")

if best_state is not None:
    net.load_state_dict(best_state)
print("result", error(test_idx))
