"""TransE on a knowledge graph of places: who is north of, near, twin of, in the district of whom."""
import sys
import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
SEED = next((int(a) for a in sys.argv[1:] if a.isdigit()), 0)
SIDE = 12
DIM = 16
MARGIN = 3.0
EPOCHS = 24
BATCH = 128


def build(rng):
    """Entities are cells of a town plan, some unbuilt; relations are steps on it. Returns (n, 3) rows head, relation, tail."""
    cells = [(i, j) for i in range(SIDE) for j in range(SIDE) if rng.random() < 0.9]
    number = {cells[at]: k for k, at in enumerate(rng.permutation(len(cells)))}
    steps = [(-1, 0), (0, 1), (2, 1), (0, -3), (4, 0), (-2, -2), (3, -3), (1, 5), (1, 1), (0, 4), (-1, 2), (5, 0)]
    rows = []
    for (i, j), h in number.items():
        for r, (di, dj) in enumerate(steps):
            t = number.get((i + di, j + dj))
            if t is not None:
                rows.append((h, r, t))
    return np.array(rows)[rng.permutation(len(rows))], len(number), len(steps)


class TransE(torch.nn.Module):
    def __init__(self, n_ent, n_rel):
        super().__init__()
        self.ent = torch.nn.Embedding(n_ent, DIM)
        self.rel = torch.nn.Embedding(n_rel, DIM)
        bound = 6 / DIM ** 0.5
        torch.nn.init.uniform_(self.ent.weight, -bound, bound)
        torch.nn.init.uniform_(self.rel.weight, -bound, bound)
        self.rel.weight.data = F.normalize(self.rel.weight.data, dim=1)

    @torch.no_grad()
    def start_on_sphere(self):
        self.ent.weight.copy_(F.normalize(self.ent.weight, dim=1))

    def distance(self, h, r, t):
        return (self.ent(h) + self.rel(r) - self.ent(t)).norm(dim=-1)


def corrupt(triples, n_ent, known):
    """Replace head or tail by a random entity; true triples are drawn again once."""
    bad = triples.clone()
    for _ in range(2):
        side = torch.where(torch.rand(len(bad)) < 0.5, 0, 2)
        again = known[bad[:, 0], bad[:, 1], bad[:, 2]]
        rows = again.nonzero().squeeze(1)
        fresh = torch.randint(n_ent, (len(rows),))
        bad[rows, side[rows]] = fresh
    return bad


@torch.no_grad()
def mrr(model, triples, n_ent, known):
    """Filtered mean reciprocal rank of the tail and of the head."""
    h, r, t = triples.unbind(1)
    every = torch.arange(n_ent)[None]
    tails = model.distance(h[:, None], r[:, None], every)
    heads = model.distance(every, r[:, None], t[:, None])
    found = []
    for d, truth, others in ((tails, t, known[h, r]), (heads, h, known[:, r, t].t())):
        mine = d.gather(1, truth[:, None])
        d = d.masked_fill(others, float("inf"))
        found.append(1 / (1 + (d < mine).sum(1)))
    return torch.cat(found).mean().item()


rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)
triples, n_ent, n_rel = build(rng)
triples = torch.tensor(triples)
cut = int(0.8 * len(triples))
train, test = triples[:cut], triples[cut:]
known = torch.zeros(n_ent, n_rel, n_ent, dtype=torch.bool)
known[triples[:, 0], triples[:, 1], triples[:, 2]] = True
print(n_ent, "entities", n_rel, "relations", len(train), "triples")

model = TransE(n_ent, n_rel)
model.start_on_sphere()
opt = torch.optim.Adam(model.parameters(), lr=4e-2)
print("mrr untrained %.4f" % mrr(model, test, n_ent, known))
for epoch in range(EPOCHS):
    order = torch.randperm(len(train))
    total = 0.0
    for rows in order.split(BATCH):
        good = train[rows].repeat(4, 1)
        bad = corrupt(good, n_ent, known)
        loss = F.relu(MARGIN + model.distance(*good.t()) - model.distance(*bad.t())).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(rows)
    for group in opt.param_groups:
        group["lr"] *= 0.93
    if epoch % 6 == 5:
        print(f"epoch {epoch + 1} loss {total / len(train):.4f} mrr {mrr(model, test, n_ent, known):.4f}")
print(f"result {1 - mrr(model, test, n_ent, known):.5f}")
