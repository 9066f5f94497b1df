import math
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab_size: int = 0
    block: int = 40
    n_layer: int = 2
    n_head: int = 4
    d_model: int = 64
    lr: float = 4e-3
    min_lr: float = 2e-4
    warmup: int = 30
    steps: int = 420
    batch: int = 12
    weight_decay: float = 0.1
    clip: float = 1.0


NOUNS = {"cat": 0, "dog": 0, "bird": 0, "judge": 1, "baker": 1, "nurse": 1, "stone": 2, "wheel": 2, "lamp": 2}
VERBS = {0: ["chases", "chase"], 1: ["calls", "call"], 2: ["hits", "hit"]}
PRON = {0: ["it", "they"], 1: ["she", "they"], 2: ["this", "these"]}
ADJ = ["red", "old", "big", "odd"]
LETTERS = [c for c in "abcdefgh"]


class Grammar:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.nouns = list(NOUNS)
        words = [".", ":", "/", "the", "that", "and", "?"]
        words += self.nouns + [n + "s" for n in self.nouns] + ADJ + LETTERS
        words += sorted({v for vs in VERBS.values() for v in vs} | {p for ps in PRON.values() for p in ps})
        self.itos = words
        self.stoi = {w: i for i, w in enumerate(words)}

    def rnd(self, n):
        return int(torch.randint(n, (1,), generator=self.g))

    def np(self):
        n = self.nouns[self.rnd(len(self.nouns))]
        plural = self.rnd(2)
        out = ["the"]
        if self.rnd(3) == 0:
            out.append(ADJ[self.rnd(len(ADJ))])
        out.append(n + "s" if plural else n)
        return out, NOUNS[n], plural

    def sentence(self):
        subj, cls, pl = self.np()
        out = list(subj)
        if self.rnd(2):
            inner, c2, p2 = self.np()
            out += ["that"] + inner + [VERBS[c2][p2]]
        out.append(VERBS[cls][pl])
        out += self.np()[0]
        out += ["and", PRON[cls][pl], VERBS[cls][pl], "."]
        if self.rnd(2):
            k = 2 + self.rnd(3)
            code = [LETTERS[self.rnd(len(LETTERS))] for _ in range(k)]
            out += [":"] + code + ["/"] + code + ["."]
        return out

    def stream(self, n):
        ids = []
        while len(ids) < n:
            ids += [self.stoi[w] for w in self.sentence()]
        return torch.tensor(ids[:n])


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def rope_cache(block, dim, base=10000.0):
    inv = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    ang = torch.outer(torch.arange(block).float(), inv)
    return torch.cos(ang), torch.sin(ang)


def apply_rope(x, cos, sin):
    n = x.size(-2)
    cos, sin = cos[:n], sin[:n]
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.n_head
        self.hd = cfg.d_model // cfg.n_head
        self.qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model, bias=False)
        self.proj = nn.Linear(cfg.d_model, cfg.d_model, bias=False)
        cos, sin = rope_cache(cfg.block, self.hd)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        mask = torch.triu(torch.ones(cfg.block, cfg.block, dtype=torch.bool), diagonal=1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=-1)
        q = q.view(B, T, self.h, self.hd).transpose(1, 2)
        k = k.view(B, T, self.h, self.hd).transpose(1, 2)
        v = v.view(B, T, self.h, self.hd).transpose(1, 2)
        q = apply_rope(q, self.cos, self.sin)
        k = apply_rope(k, self.cos, self.sin)
        att = q @ k.transpose(-2, -1) / math.sqrt(self.hd)
        att = att.masked_fill(self.mask[:T, :T], float("-inf")).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.proj(y)


class SwiGLU(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.gate = nn.Linear(d, hidden, bias=False)
        self.up = nn.Linear(d, hidden, bias=False)
        self.down = nn.Linear(hidden, d, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1 = RMSNorm(cfg.d_model)
        self.attn = Attention(cfg)
        self.n2 = RMSNorm(cfg.d_model)
        self.mlp = SwiGLU(cfg.d_model, 2 * cfg.d_model)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        x = x + self.mlp(self.n2(x))
        return x


class GPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.norm = RMSNorm(cfg.d_model)
        self.head = nn.Linear(cfg.d_model, cfg.vocab_size, bias=False)
        self.apply(self._init)
        self.head.weight = self.tok.weight
        for b in self.blocks:
            for w in (b.attn.proj.weight, b.mlp.down.weight):
                nn.init.normal_(w, std=0.05 / math.sqrt(2 * cfg.n_layer))

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.05)

    def forward(self, idx, targets=None):
        x = self.tok(idx)
        for b in self.blocks:
            x = b(x)
        logits = self.head(self.norm(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))
        return logits, loss

    def make_optimizer(self):
        decay, plain = [], []
        for name, p in self.named_parameters():
            if p.dim() < 2 or name.startswith("tok"):
                plain.append(p)
            else:
                decay.append(p)
        groups = [{"params": decay, "weight_decay": self.cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.cfg.lr, betas=(0.9, 0.95))


def get_lr(step, cfg):
    if step < cfg.warmup:
        return cfg.lr * (step + 1) / cfg.warmup
    r = (step - cfg.warmup) / (cfg.steps - cfg.warmup)
    return cfg.min_lr + 0.5 * (cfg.lr - cfg.min_lr) * (1 + math.cos(math.pi * r))


def get_batch(data, cfg, gen):
    ix = torch.randint(len(data) - cfg.block - 1, (cfg.batch,), generator=gen)
    x = torch.stack([data[i:i + cfg.block] for i in ix])
    y = torch.stack([data[i + 1:i + cfg.block + 1] for i in ix])
    return x, y


@torch.no_grad()
def evaluate(model, data, cfg, gen, iters=20):
    model.eval()
    tot, hit, cnt = 0.0, 0, 0
    for _ in range(iters):
        x, y = get_batch(data, cfg, gen)
        logits, loss = model(x, y)
        tot += loss.item()
        hit += (logits.argmax(-1) == y).sum().item()
        cnt += y.numel()
    model.train()
    return tot / iters, hit / cnt


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    cfg = Config()
    grammar = Grammar(seed + 100)
    cfg.vocab_size = len(grammar.itos)
    train, val = grammar.stream(40000), grammar.stream(6000)
    model = GPT(cfg)
    opt = model.make_optimizer()
    gen = torch.Generator().manual_seed(seed + 1)
    for step in range(cfg.steps):
        for g in opt.param_groups:
            g["lr"] = get_lr(step, cfg)
        x, y = get_batch(train, cfg, gen)
        _, loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        opt.step()
        if step % 60 == 0 or step == cfg.steps - 1:
            vl, va = evaluate(model, val, cfg, torch.Generator().manual_seed(7), 4)
            print(f"step {step:4d} | loss {loss.item():.4f} | val {vl:.4f} | acc {va:.3f} | gnorm {norm:.2f}")
    vl, va = evaluate(model, val, cfg, torch.Generator().manual_seed(9), 30)
    print(f"final val loss {vl:.4f} acc {va:.3f}")
    print("result", round(vl, 5))


if __name__ == "__main__":
    main()
