"""Tiny character GPT with a KV cache for sampling."""
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    ctx: int = 48
    dim: int = 64
    heads: int = 4
    layers: int = 2
    dropout: float = 0.05
    batch: int = 24
    steps: int = 300
    warmup: int = 30
    lr: float = 4e-3
    min_lr: float = 1e-4
    seed: int = 1337


cfg = Config()
random.seed(cfg.seed)
torch.manual_seed(cfg.seed)

NAMES = "anna boris clara dmitri elena felix greta hugo".split()
VERBS = "bought sold found painted carried lost".split()
COLORS = "red green yellow purple silver".split()
THINGS = "apple lantern basket violin kettle ribbon pencil".split()


def sentence():
    n = random.randint(1, 9)
    thing = random.choice(THINGS) + ("s" if n > 1 else "")
    s = f"{random.choice(NAMES)} {random.choice(VERBS)} {n} {random.choice(COLORS)} {thing}"
    if random.random() < 0.4:
        s += f" for {random.choice(NAMES)}"
    return s + ". "


text = "".join(sentence() for _ in range(2500))
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
split = int(0.9 * len(data))
train_data, val_data = data[:split], data[split:]
lexicon = set(text.replace(".", "").split())


def get_batch(source):
    starts = torch.randint(len(source) - cfg.ctx - 1, (cfg.batch,)).tolist()
    x = torch.stack([source[i:i + cfg.ctx] for i in starts])
    y = torch.stack([source[i + 1:i + cfg.ctx + 1] for i in starts])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.proj = nn.Linear(cfg.dim, cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(),
                                 nn.Linear(4 * cfg.dim, cfg.dim), nn.Dropout(cfg.dropout))

    def forward(self, x, past=None):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, cfg.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        S = k.size(2)
        mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(C // cfg.heads)
        att = att.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x)), (k, v)


class CharGPT(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tok = nn.Embedding(vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.ctx, cfg.dim)
        self.blocks = nn.ModuleList(Block() for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, vocab, bias=False)
        self.head.weight = self.tok.weight
        for emb in (self.tok, self.pos):
            nn.init.normal_(emb.weight, std=0.02)

    def forward(self, idx, cache=None):
        offset = cache[0][0].size(2) if cache else 0
        x = self.tok(idx) + self.pos(torch.arange(offset, offset + idx.size(1)))
        fresh = []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, cache[i] if cache else None)
            fresh.append(kv)
        return self.head(self.norm(x)), fresh


@torch.no_grad()
def generate(model, prompt, n_new, temperature=0.8):
    logits, cache = model(prompt)
    out = prompt
    for _ in range(n_new):
        probs = (logits[:, -1] / temperature).softmax(-1)
        nxt = torch.multinomial(probs, 1)
        out = torch.cat([out, nxt], 1)
        logits, cache = model(nxt, cache)
    return out


@torch.no_grad()
def bits_per_char(model, n=8):
    model.eval()
    total = 0.0
    for _ in range(n):
        x, y = get_batch(val_data)
        logits, _ = model(x)
        total += F.cross_entropy(logits.flatten(0, 1), y.flatten()).item()
    model.train()
    return total / n / math.log(2)


def lr_at(step):
    if step < cfg.warmup:
        return cfg.lr * (step + 1) / cfg.warmup
    progress = (step - cfg.warmup) / (cfg.steps - cfg.warmup)
    return cfg.min_lr + 0.5 * (cfg.lr - cfg.min_lr) * (1 + math.cos(math.pi * min(progress, 1.0)))


model = CharGPT(len(chars))
opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.95), weight_decay=0.01)
for step in range(cfg.steps):
    for group in opt.param_groups:
        group["lr"] = lr_at(step)
    x, y = get_batch(train_data)
    logits, _ = model(x)
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f} val bpc {bits_per_char(model, 3):.3f}")

bpc = bits_per_char(model)
model.eval()
prompts, _ = get_batch(val_data)
samples = generate(model, prompts[:, :12], cfg.ctx - 12)
words = []
for row in samples.tolist():
    tail = "".join(chars[i] for i in row[12:])
    words += tail.replace(".", "").split()[1:-1]
unknown = sum(w not in lexicon for w in words) / max(len(words), 1)
print("sample:", "".join(chars[i] for i in samples[0].tolist()))
print(f"val bpc {bpc:.4f}  unknown words {unknown:.3f}")
print(f"result {bpc + unknown:.4f}")
