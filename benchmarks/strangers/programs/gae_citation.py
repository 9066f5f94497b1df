"""Link prediction on a synthetic citation graph with a variational graph auto-encoder."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def community_graph(n, blocks, degree, n_words, gen):
    """Degree-corrected block model with noisy bag-of-words features that hint at the block."""
    block = torch.randint(0, blocks, (n,), generator=gen)
    latent = torch.randn(n, 2, generator=gen)
    activity = torch.rand(n, generator=gen).pow(2) + 0.3
    affinity = torch.where(block[:, None] == block[None], 1.0, 0.03)
    affinity = affinity * torch.exp(-torch.cdist(latent, latent) * 1.2)
    rate = affinity * activity[:, None] * activity[None]
    rate = rate * (degree * n / rate.sum())
    upper = torch.triu(torch.rand(n, n, generator=gen) < rate, diagonal=1)
    edges = upper.nonzero().T
    topics = torch.rand(blocks, n_words, generator=gen) < 0.12
    tilt = torch.sigmoid(latent @ torch.randn(2, n_words, generator=gen) * 1.5)
    prob = 0.02 + 0.25 * topics[block] * tilt
    words = (torch.rand(n, n_words, generator=gen) < prob).float()
    return words, edges


def split_edges(edges, gen, val_frac=0.05, test_frac=0.15):
    perm = torch.randperm(edges.shape[1], generator=gen)
    n_val, n_test = int(val_frac * len(perm)), int(test_frac * len(perm))
    return edges[:, perm[n_val + n_test:]], edges[:, perm[:n_val]], edges[:, perm[n_val:n_val + n_test]]


def normalized_adjacency(edges, n):
    loops = torch.arange(n).repeat(2, 1)
    index = torch.cat([edges, edges.flip(0), loops], dim=1)
    deg = torch.zeros(n).scatter_add_(0, index[1], torch.ones(index.shape[1]))
    weight = deg[index[0]].rsqrt() * deg[index[1]].rsqrt()
    return torch.sparse_coo_tensor(index, weight, (n, n), check_invariants=False).coalesce()


def sample_negatives(n, count, known, gen):
    """Uniform node pairs that are not edges; known holds the ids u * n + v with u < v."""
    pairs = torch.randint(0, n, (2, 2 * count), generator=gen)
    low, high = pairs.min(0).values, pairs.max(0).values
    ok = (low != high) & ~torch.isin(low * n + high, known)
    return torch.stack([low[ok], high[ok]])[:, :count]


class GraphConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return torch.sparse.mm(adj, x @ self.weight)


class VGAE(nn.Module):
    def __init__(self, n_in, hidden, latent, dropout):
        super().__init__()
        self.conv = GraphConv(n_in, hidden)
        self.conv_mu = GraphConv(hidden, latent)
        self.conv_logstd = GraphConv(hidden, latent)
        self.bias = nn.Parameter(torch.zeros(1))
        self.dropout = dropout

    def encode(self, x, adj):
        x = F.dropout(x, self.dropout, self.training)
        h = F.relu(self.conv(x, adj))
        return self.conv_mu(h, adj), self.conv_logstd(h, adj).clamp(max=5)

    def sample(self, mu, logstd):
        return mu + torch.randn_like(mu) * logstd.exp() if self.training else mu

    def decode(self, z, edges):
        return (z[edges[0]] * z[edges[1]]).sum(-1) + self.bias


def kl_term(mu, logstd):
    return -0.5 * (1 + 2 * logstd - mu ** 2 - (2 * logstd).exp()).sum(1).mean()


def auc(pos, neg):
    scores = torch.cat([pos, neg])
    ranks = torch.empty_like(scores)
    ranks[scores.argsort()] = torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    return ((ranks[:len(pos)].sum() - len(pos) * (len(pos) + 1) / 2) / (len(pos) * len(neg))).item()


@torch.no_grad()
def evaluate(model, x, adj, pos_edges, neg_edges):
    model.eval()
    mu, _ = model.encode(x, adj)
    score = auc(model.decode(mu, pos_edges).double(), model.decode(mu, neg_edges).double())
    model.train()
    return score


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--nodes", type=int, default=900)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--latent", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.2)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    x, edges = community_graph(args.nodes, blocks=6, degree=6.0, n_words=200, gen=gen)
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    n = args.nodes
    train, val, test = split_edges(edges, gen)
    known = edges[0] * n + edges[1]
    val_neg = sample_negatives(n, val.shape[1], known, gen)
    test_neg = sample_negatives(n, test.shape[1], known, gen)
    adj = normalized_adjacency(train, n)
    train_known = train[0] * n + train[1]

    model = VGAE(x.shape[1], args.hidden, args.latent, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    best_val, best = 0.0, None
    for epoch in range(1, args.epochs + 1):
        neg = sample_negatives(n, train.shape[1], train_known, gen)
        mu, logstd = model.encode(x, adj)
        z = model.sample(mu, logstd)
        pos_logits, neg_logits = model.decode(z, train), model.decode(z, neg)
        logits = torch.cat([pos_logits, neg_logits])
        labels = torch.cat([torch.ones_like(pos_logits), torch.zeros_like(neg_logits)])
        recon = F.binary_cross_entropy_with_logits(logits, labels)
        loss = recon + kl_term(mu, logstd) / n
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            score = evaluate(model, x, adj, val, val_neg)
            if score > best_val:
                best_val, best = score, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 50 == 0:
            print(f"epoch {epoch} recon {recon.item():.4f} val AUC {best_val:.4f}")
    model.load_state_dict(best)
    print(f"result {1 - evaluate(model, x, adj, test, test_neg):.5f}")


if __name__ == "__main__":
    main()
