"""Link prediction with a graph attention encoder on a synthetic citation-like graph."""
import math

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

N_NODES, N_GROUPS, N_FEAT = 320, 8, 24


def synth_graph(rng):
    group = rng.integers(0, N_GROUPS, N_NODES)
    pos = rng.normal(size=(N_NODES, 2))
    activity = np.exp(0.4 * rng.normal(size=N_NODES))
    d2 = ((pos[:, None] - pos[None]) ** 2).sum(-1)
    rate = 0.8 * activity[:, None] * activity[None] * np.exp(-1.5 * d2)
    rate = np.where(group[:, None] == group[None], rate, 0.04 * rate)
    iu = np.triu_indices(N_NODES, 1)
    hit = rng.random(len(iu[0])) < np.minimum(rate[iu], 0.9)
    edges = np.stack([iu[0][hit], iu[1][hit]], 1)
    words = rng.normal(size=(N_GROUPS, N_FEAT))
    x = 0.5 * words[group] + 1.5 * rng.normal(size=(N_NODES, N_FEAT))
    x[:, :2] += pos
    return torch.tensor(x, dtype=torch.float32), torch.tensor(edges)


def split_edges(edges, gen, frac=0.2):
    perm = torch.randperm(len(edges), generator=gen)
    n_test = int(frac * len(edges))
    return edges[perm[n_test:]], edges[perm[:n_test]]


def adjacency(edges, n=N_NODES):
    a = torch.zeros(n, n, dtype=torch.bool)
    a[edges[:, 0], edges[:, 1]] = True
    a = a | a.T
    a.fill_diagonal_(True)
    return a


def sample_non_edges(n, known, gen):
    # the diagonal of `known` is set, so self pairs are rejected as well
    cand = torch.randint(0, N_NODES, (2 * n + 50, 2), generator=gen)
    cand = cand[~known[cand[:, 0], cand[:, 1]]]
    return cand[:n]


class GATLayer(nn.Module):
    def __init__(self, d_in, d_out, heads, concat=True, p=0.4):
        super().__init__()
        self.heads, self.d_out, self.concat = heads, d_out, concat
        self.proj = nn.Linear(d_in, heads * d_out, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, d_out) / math.sqrt(d_out))
        self.a_dst = nn.Parameter(torch.randn(heads, d_out) / math.sqrt(d_out))
        self.skip = nn.Linear(d_in, heads * d_out if concat else d_out)
        self.drop = nn.Dropout(p)

    def forward(self, x, adj):
        n = x.size(0)
        h = self.proj(self.drop(x)).view(n, self.heads, self.d_out)
        src = (h * self.a_src).sum(-1)
        dst = (h * self.a_dst).sum(-1)
        # logits[i, j, k]: how much node i listens to node j in head k
        logits = F.leaky_relu(dst[:, None, :] + src[None, :, :], 0.2)
        logits = logits.masked_fill(~adj[:, :, None], float("-inf"))
        att = self.drop(torch.softmax(logits, dim=1))
        out = torch.einsum("ijk,jkd->ikd", att, h)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.skip(x)


class LinkModel(nn.Module):
    def __init__(self, hidden=16, heads=4, out=32):
        super().__init__()
        self.gat1 = GATLayer(N_FEAT, hidden, heads)
        self.gat2 = GATLayer(hidden * heads, out, heads, concat=False)
        self.bias = nn.Parameter(torch.zeros(1))

    def encode(self, x, adj):
        return self.gat2(F.elu(self.gat1(x, adj)), adj)

    def score(self, z, pairs):
        return (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(-1) / math.sqrt(z.size(1)) + self.bias


def auc(pos, neg):
    wins = (pos[:, None] > neg[None]).float() + 0.5 * (pos[:, None] == neg[None]).float()
    return wins.mean().item()


@torch.no_grad()
def evaluate(model, x, adj, pos, neg):
    model.eval()
    z = model.encode(x, adj)
    value = auc(model.score(z, pos), model.score(z, neg))
    model.train()
    return value


def train(steps=200, supervised=300, lr=5e-3):
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    gen = torch.Generator().manual_seed(5)
    x, edges = synth_graph(rng)
    x = (x - x.mean(0)) / x.std(0)
    train_e, test_e = split_edges(edges, gen)
    everything = adjacency(edges)
    test_neg = sample_non_edges(len(test_e), everything, gen)
    train_adj = adjacency(train_e)
    print(f"{len(train_e)} train edges, {len(test_e)} test edges")

    model = LinkModel()
    opt = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=5e-4)
    for step in range(steps):
        perm = torch.randperm(len(train_e))
        pos = train_e[perm[:supervised]]
        neg = sample_non_edges(supervised, train_adj, gen)
        z = model.encode(x, adjacency(train_e[perm[supervised:]]))
        logits = torch.cat([model.score(z, pos), model.score(z, neg)])
        target = torch.cat([torch.ones(supervised), torch.zeros(supervised)])
        loss = F.binary_cross_entropy_with_logits(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0 or step == steps - 1:
            print(f"step {step} loss {loss.item():.4f}")
        if step % 100 == 99:
            print(f"   test auc {evaluate(model, x, train_adj, test_e, test_neg):.4f}")
    final = evaluate(model, x, train_adj, test_e, test_neg)
    print(f"result {1 - final:.4f}")


train()
