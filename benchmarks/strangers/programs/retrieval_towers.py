import numpy as np
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

# ---- synthetic corpus -------------------------------------------------------
N_TOPICS = 40
N_ENT = 400
Q_VOCAB = 900
D_VOCAB = 1200


class Corpus:
    """Every item is about one topic and two entities. Queries and documents use different words for them."""

    def __init__(self, seed):
        r = np.random.default_rng(seed)
        self.r = r
        self.q_topic = r.integers(1, Q_VOCAB, size=(N_TOPICS, 6))
        self.d_topic = r.integers(1, D_VOCAB, size=(N_TOPICS, 10))
        self.q_ent = r.integers(1, Q_VOCAB, size=(N_ENT, 2))
        self.d_ent = r.integers(1, D_VOCAB, size=(N_ENT, 3))

    def item(self):
        r = self.r
        t = r.integers(N_TOPICS)
        ents = r.integers(N_ENT, size=2)
        q = list(r.choice(self.q_topic[t], 2)) + [r.choice(self.q_ent[e]) for e in ents]
        q += list(r.integers(1, Q_VOCAB, size=r.integers(0, 3)))
        d = list(r.choice(self.d_topic[t], 6)) + [w for e in ents for w in r.choice(self.d_ent[e], 3)]
        d += list(r.integers(1, D_VOCAB, size=r.integers(0, 12)))
        r.shuffle(q)
        r.shuffle(d)
        return q, d

    def make(self, n):
        items = [self.item() for _ in range(n)]
        return pad([q for q, _ in items]), pad([d for _, d in items])


def pad(seqs):
    n = max(map(len, seqs))
    out = np.zeros((len(seqs), n), dtype=np.int64)
    for i, s in enumerate(seqs):
        out[i, :len(s)] = s
    return torch.from_numpy(out)


# ---- model ------------------------------------------------------------------
def word_dropout(ids, p):
    keep = torch.rand(ids.shape) > p
    return ids * keep


class Tower(nn.Module):
    def __init__(self, vocab, dim=64, out=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.attn = nn.Linear(dim, 1)
        self.mlp = nn.Sequential(nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, out))
        nn.init.normal_(self.emb.weight, std=0.1)

    def forward(self, ids):
        e = self.emb(ids)
        w = self.attn(torch.tanh(e)).squeeze(-1)
        w = w.masked_fill(ids == 0, -1e4).softmax(dim=1)
        pooled = (w.unsqueeze(-1) * e).sum(1) * 3.0
        return F.normalize(self.mlp(pooled), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = Tower(Q_VOCAB)
        self.doc = Tower(D_VOCAB)
        self.log_scale = nn.Parameter(torch.tensor(float(np.log(15.0))))

    def loss(self, q_ids, d_ids):
        q, d = self.query(q_ids), self.doc(d_ids)
        scores = q @ d.t() * self.log_scale.exp().clamp(max=60.0)
        labels = torch.arange(len(q))
        return 0.5 * (F.cross_entropy(scores, labels) + F.cross_entropy(scores.t(), labels))


class DenseIndex:
    def __init__(self, encoder, docs, chunk=256):
        self.encoder, self.docs, self.chunk = encoder, docs, chunk
        self.vectors = None

    @torch.no_grad()
    def build(self):
        self.vectors = torch.cat([self.encoder(c) for c in self.docs.split(self.chunk)])

    def scores(self, q):
        return q @ self.vectors.t()


@torch.no_grad()
def mrr(model, index, queries):
    model.eval()
    index.build()
    s = index.scores(model.query(queries))
    gold = s.diagonal().unsqueeze(1)
    rank = 1 + (s > gold).sum(1)
    model.train()
    return (1.0 / rank.float()).mean().item(), (rank <= 10).float().mean().item()


# ---- training ---------------------------------------------------------------
def train(seed, steps=600, batch=96):
    torch.manual_seed(seed)
    corpus = Corpus(seed)
    q_train, d_train = corpus.make(8000)
    q_test, d_test = corpus.make(800)
    model = TwoTower()
    index = DenseIndex(model.doc, d_test)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=6e-3, total_steps=steps, pct_start=0.1)
    start = time.time()
    perm, pos = torch.randperm(len(q_train)), 0
    for step in range(1, steps + 1):
        if pos + batch > len(perm):
            perm, pos = torch.randperm(len(q_train)), 0
        idx = perm[pos:pos + batch]
        pos += batch
        loss = model.loss(word_dropout(q_train[idx], 0.1), word_dropout(d_train[idx], 0.1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 100 == 0:
            m, r10 = mrr(model, index, q_test)
            print(f"[{step}] loss={loss.item():.3f} mrr={m:.3f} r@10={r10:.3f} ({time.time() - start:.1f}s)")
    m, _ = mrr(model, index, q_test)
    return 1.0 - m


if __name__ == "__main__":
    print("result", train(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
