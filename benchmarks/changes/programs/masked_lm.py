"""Masked language modelling on sentences of a synthetic grammar; encoder with tied output weights."""
from dataclasses import dataclass
import math
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, MASK, CLS, FIRST_WORD = 0, 1, 2, 3
IGNORE = -100

@dataclass
class Config:
    vocab: int = 120
    dim: int = 96
    heads: int = 4
    layers: int = 3
    max_len: int = 40
    dropout: float = 0.1
    mask_prob: float = 0.15
    batch_size: int = 48
    lr: float = 4e-4
    clip: float = 1.0
    warmup: int = 200
    steps: int = 2500
    seed: int = 13

class Corpus:
    """Each word is followed by one of three words that depend on it; sentences have 8 to 38 words."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = random.Random(cfg.seed)
        words = range(FIRST_WORD, cfg.vocab)
        self.followers = {w: self.rng.sample(words, 3) for w in words}

    def sentence(self):
        word = self.rng.randrange(FIRST_WORD, self.cfg.vocab)
        out = [CLS, word]
        for _ in range(self.rng.randint(7, 37)):
            word = self.rng.choices(self.followers[word], weights=(6, 3, 1))[0]
            out.append(word)
        return out

    def batch(self):
        rows = [self.sentence() for _ in range(self.cfg.batch_size)]
        longest = max(map(len, rows))
        return torch.tensor([r + [PAD] * (longest - len(r)) for r in rows])

def mask_tokens(ids, cfg):
    labels = ids.clone()
    eligible = (ids != PAD) & (ids != CLS)
    chosen = (torch.rand(ids.shape) < cfg.mask_prob) & eligible
    labels[~chosen] = IGNORE
    corrupted = ids.clone()
    dice = torch.rand(ids.shape)
    corrupted[chosen & (dice < 0.8)] = MASK
    swap = chosen & (dice > 0.9)
    corrupted[swap] = torch.randint(FIRST_WORD, cfg.vocab, (int(swap.sum()),))
    return corrupted, labels

class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(pad[:, None, None, :], -1e4)
        weights = self.drop(scores.softmax(dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, d))

class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.attention = SelfAttention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(),
                                 nn.Linear(4 * cfg.dim, cfg.dim), nn.Dropout(cfg.dropout))

    def forward(self, x, pad):
        x = x + self.attention(self.norm1(x), pad)
        return x + self.mlp(self.norm2(x))

class MaskedLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.token = nn.Embedding(cfg.vocab, cfg.dim)
        self.position = nn.Embedding(cfg.max_len, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim)
        self.decoder = nn.Linear(cfg.dim, cfg.vocab)
        nn.init.normal_(self.token.weight, std=0.05)
        nn.init.normal_(self.position.weight, std=0.05)
        self.decoder.weight = self.token.weight

    def forward(self, ids):
        pad = ids == PAD
        h = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            h = block(h, pad)
        return self.decoder(self.norm(h))

def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus, model = Corpus(cfg), MaskedLM(cfg).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=cfg.warmup)
    for step in range(1, cfg.steps + 1):
        corrupted, labels = mask_tokens(corpus.batch(), cfg)
        corrupted, labels = corrupted.to(device), labels.to(device)
        logits = model(corrupted)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        optimizer.step()
        scheduler.step()
        if step % 100 == 0:
            print(f"step {step} mlm loss {loss.item():.4f} ppl {math.exp(loss.item()):.2f}")

if __name__ == "__main__":
    main()
