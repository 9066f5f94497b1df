"""Self-attentive sequential recommendation (SASRec) on simulated browsing sessions."""
import random
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS, N_ITEMS, MAX_LEN, PAD = 1500, 120, 20, 0


def simulate_users(rng):
    """Each item has a few likely successors; users now and then return to what follows an older item."""
    successors = np.stack([rng.choice(np.arange(1, N_ITEMS + 1), 3, replace=False) for _ in range(N_ITEMS + 1)])
    popularity = 1.0 / np.arange(1, N_ITEMS + 1) ** 0.6
    popularity = rng.permutation(popularity / popularity.sum())
    histories = []
    for _ in range(N_USERS):
        items = [int(rng.choice(N_ITEMS, p=popularity)) + 1]
        for _ in range(int(rng.integers(6, 28))):
            u = rng.random()
            if u < 0.75:
                items.append(int(successors[items[-1]][rng.choice(3, p=[0.7, 0.2, 0.1])]))
            elif u < 0.85 and len(items) > 1:
                items.append(int(successors[items[-2]][0]))
            else:
                items.append(int(rng.choice(N_ITEMS, p=popularity)) + 1)
        histories.append(items)
    return histories


class WarpSampler:
    """Left-padded (sequence, positive, negative) batches for next-item training."""

    def __init__(self, histories, batch_size, seed):
        self.train = [h[:-2] for h in histories]
        self.batch_size = batch_size
        self.rng = random.Random(seed)

    def sample_one(self):
        user = self.rng.randrange(len(self.train))
        items = self.train[user][-(MAX_LEN + 1):]
        seen = set(self.train[user])
        seq, pos, neg = [PAD] * MAX_LEN, [PAD] * MAX_LEN, [PAD] * MAX_LEN
        nxt, idx = items[-1], MAX_LEN - 1
        for item in reversed(items[:-1]):
            seq[idx], pos[idx] = item, nxt
            candidate = self.rng.randint(1, N_ITEMS)
            while candidate in seen:
                candidate = self.rng.randint(1, N_ITEMS)
            neg[idx] = candidate
            nxt = item
            idx -= 1
        return seq, pos, neg

    def next_batch(self):
        rows = [self.sample_one() for _ in range(self.batch_size)]
        return tuple(torch.tensor(column) for column in zip(*rows))


class SASRecBlock(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.attn_norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ffn_norm = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, dim), nn.Dropout(dropout))

    def forward(self, x, mask):
        q = self.attn_norm(x)
        x = x + self.attn(q, x, x, attn_mask=mask, need_weights=False)[0]
        return x + self.ffn(self.ffn_norm(x))


class SASRec(nn.Module):
    def __init__(self, dim=32, heads=1, layers=2, dropout=0.1):
        super().__init__()
        self.item_emb = nn.Embedding(N_ITEMS + 1, dim, padding_idx=PAD)
        self.pos_emb = nn.Embedding(MAX_LEN, dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([SASRecBlock(dim, heads, dropout) for _ in range(layers)])
        self.final_norm = nn.LayerNorm(dim)
        self.register_buffer("causal", torch.triu(torch.ones(MAX_LEN, MAX_LEN, dtype=torch.bool), diagonal=1))
        nn.init.normal_(self.item_emb.weight, std=0.1)
        nn.init.normal_(self.pos_emb.weight, std=0.05)

    def encode(self, seq):
        keep = (seq != PAD).unsqueeze(-1)
        x = self.item_emb(seq) * self.item_emb.embedding_dim ** 0.5
        x = self.dropout(x + self.pos_emb(torch.arange(MAX_LEN))) * keep
        for block in self.blocks:
            x = block(x, self.causal) * keep
        return self.final_norm(x)

    def forward(self, seq, pos, neg):
        h = self.encode(seq)
        pos_logits = (h * self.item_emb(pos)).sum(-1)
        neg_logits = (h * self.item_emb(neg)).sum(-1)
        return pos_logits, neg_logits

    def score_all(self, seq):
        scores = self.encode(seq)[:, -1] @ self.item_emb.weight.T
        scores[:, PAD] = -float("inf")
        return scores


def bce_loss(pos_logits, neg_logits, pos):
    valid = pos != PAD
    loss = F.softplus(-pos_logits) + F.softplus(neg_logits)
    return loss[valid].mean()


def pad_left(items):
    items = items[-MAX_LEN:]
    return [PAD] * (MAX_LEN - len(items)) + items


@torch.no_grad()
def evaluate(model, histories, held_out, k=10):
    """NDCG@k of the held-out item among all items; held_out is -2 (validation) or -1 (test)."""
    model.eval()
    seq = torch.tensor([pad_left(h[:held_out]) for h in histories])
    target = torch.tensor([h[held_out] for h in histories])
    scores = model.score_all(seq)
    rank = (scores > scores.gather(1, target[:, None])).sum(1)
    gain = 1.0 / torch.log2(rank.float() + 2.0)
    model.train()
    return (gain * (rank < k)).mean().item()


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    histories = simulate_users(np.random.default_rng(seed))
    sampler = WarpSampler(histories, batch_size=64, seed=seed)
    model = SASRec()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    best, best_state = 0.0, None
    for step in range(1, 241):
        seq, pos, neg = sampler.next_batch()
        pos_logits, neg_logits = model(seq, pos, neg)
        loss = bce_loss(pos_logits, neg_logits, pos)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 80 == 0:
            ndcg = evaluate(model, histories, held_out=-2)
            print(f"step {step} loss {loss.item():.4f} valid NDCG@10 {ndcg:.4f}")
            if ndcg > best:
                best, best_state = ndcg, {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(best_state)
    print(f"result {-evaluate(model, histories, held_out=-1):.5f}")


if __name__ == "__main__":
    main()
