import json
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)

cfg = dict(n_users=500, n_items=800, dim=32, batch=512, steps=1200, lr=5e-3, l2=2e-5, topk=10, seed=5)


def simulate(cfg):
    """Users with 2-3 tastes click items of the matching genres, popular items more often."""
    g = torch.Generator().manual_seed(cfg["seed"])
    U, I, K = cfg["n_users"], cfg["n_items"], 12
    tastes = torch.softmax(4.0 * torch.randn(U, K, generator=g), 1)
    genres = torch.softmax(4.0 * torch.randn(I, K, generator=g), 1)
    pop = torch.exp(0.7 * torch.randn(I, generator=g))
    rate = (tastes @ genres.T) ** 1.5 * pop
    clicks = torch.zeros(U, I, dtype=torch.bool)
    heldout = torch.zeros(U, 3, dtype=torch.long)
    for u in range(U):
        n = int(torch.randint(18, 40, (1,), generator=g))
        items = torch.multinomial(rate[u], n, generator=g)
        clicks[u, items[3:]] = True
        heldout[u] = items[:3]
    return clicks, heldout


class BiasedMF(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user_emb = nn.Embedding(n_users, dim)
        self.item_emb = nn.Embedding(n_items, dim)
        self.item_bias = nn.Embedding(n_items, 1)
        nn.init.normal_(self.user_emb.weight, std=0.1)
        nn.init.normal_(self.item_emb.weight, std=0.1)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, u, i):
        return (self.user_emb(u) * self.item_emb(i)).sum(-1) + self.item_bias(i).squeeze(-1)

    def score_all(self, u):
        return self.user_emb(u) @ self.item_emb.weight.T + self.item_bias.weight.T


class TripletSampler:
    def __init__(self, clicks, batch):
        self.clicks = clicks
        self.users, self.items = clicks.nonzero(as_tuple=True)
        self.batch = batch
        self.n_users, self.n_items = clicks.shape

    def draw(self):
        k = torch.randint(0, len(self.users), (self.batch,))
        u, pos = self.users[k], self.items[k]
        neg = torch.randint(0, self.n_items, (self.batch,))
        bad = self.clicks[u, neg]
        while bad.any():
            neg[bad] = torch.randint(0, self.n_items, (int(bad.sum()),))
            bad = self.clicks[u, neg]
        return u, pos, neg


def bpr_loss(pos_score, neg_score):
    return -F.logsigmoid(pos_score - neg_score).mean()


@torch.no_grad()
def ndcg(model, clicks, heldout, k):
    model.eval()
    scores = model.score_all(torch.arange(clicks.shape[0]))
    scores = scores.masked_fill(clicks, float("-inf"))
    top = scores.topk(k, dim=1).indices
    hits = (top.unsqueeze(2) == heldout.unsqueeze(1)).any(2).float()
    disc = 1.0 / torch.log2(torch.arange(2, k + 2).float())
    ideal = disc[: heldout.shape[1]].sum()
    return ((hits * disc).sum(1) / ideal).mean().item()


def train(cfg):
    torch.manual_seed(cfg["seed"])
    clicks, heldout = simulate(cfg)
    model = BiasedMF(cfg["n_users"], cfg["n_items"], cfg["dim"])
    sampler = TripletSampler(clicks, cfg["batch"])
    optim = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    running = 0.0
    for step in range(1, cfg["steps"] + 1):
        model.train()
        u, pos, neg = sampler.draw()
        p, n = model(u, pos), model(u, neg)
        reg = model.user_emb(u).pow(2).sum() + model.item_emb(pos).pow(2).sum() + model.item_emb(neg).pow(2).sum()
        loss = bpr_loss(p, n) + cfg["l2"] * reg
        optim.zero_grad()
        loss.backward()
        optim.step()
        running += loss.item()
        if step % 200 == 0:
            print(f"[{step}/{cfg['steps']}] loss={running / 200:.4f} ndcg@{cfg['topk']}={ndcg(model, clicks, heldout, cfg['topk']):.4f}")
            running = 0.0
    return ndcg(model, clicks, heldout, cfg["topk"])


if __name__ == "__main__":
    value = train(cfg)
    print("RESULT " + json.dumps({"metric": "ndcg@10", "value": round(value, 4), "better": "higher"}))
