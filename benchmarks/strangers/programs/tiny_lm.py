"""Small GPT on a synthetic "topic" language, one GPU.

The corpus is a stream of fixed-length documents. The first token of a document names its topic; every topic has its own
bigram table, so a good model must look back at the document's head. We know the generator, hence the entropy floor.
"""
import math
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)
torch.set_float32_matmul_precision("high")


@dataclass
class Config:
    n_topics: int = 6
    n_words: int = 26
    block: int = 32
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    micro_batch: int = 16
    grad_accum: int = 4
    max_steps: int = 400
    warmup: int = 40
    lr: float = 4e-3
    min_lr: float = 2e-4
    weight_decay: float = 0.05
    clip: float = 1.0

    @property
    def vocab(self):
        return self.n_topics + self.n_words


cfg = Config()


# ----------------------------------------------------------------------------- data
def make_language(gen):
    logits = 2.6 * torch.randn(cfg.n_topics, cfg.n_words, cfg.n_words, generator=gen)
    return logits.softmax(-1)


def write_docs(table, n, gen):
    topic = torch.randint(cfg.n_topics, (n,), generator=gen)
    docs = torch.empty(n, cfg.block + 1, dtype=torch.long)
    docs[:, 0] = topic
    word = torch.randint(cfg.n_words, (n,), generator=gen)
    docs[:, 1] = cfg.n_topics + word
    for t in range(2, cfg.block + 1):
        word = torch.multinomial(table[topic, word], 1, generator=gen).squeeze(1)
        docs[:, t] = cfg.n_topics + word
    return docs


gen = torch.Generator().manual_seed(0)
table = make_language(gen)
train_docs = write_docs(table, 20_000, gen).to(torch.int16)
val_docs = write_docs(table, 1_000, gen).to(torch.int16)
if device == "cuda":
    train_docs = train_docs.pin_memory()


def get_batch(split, generator):
    source = train_docs if split == "train" else val_docs
    ix = torch.randint(len(source), (cfg.micro_batch,), generator=generator)
    docs = source[ix].to(device, non_blocking=True).long()
    return docs[:, :-1], docs[:, 1:]


# ----------------------------------------------------------------------------- model
class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=False)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).view(B, T, 3, cfg.n_head, C // cfg.n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(cfg.n_embd)
        self.attn = CausalSelfAttention()
        self.ln_2 = nn.LayerNorm(cfg.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(), nn.Linear(4 * cfg.n_embd, cfg.n_embd)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(cfg.vocab, cfg.n_embd)
        self.wpe = nn.Embedding(cfg.block, cfg.n_embd)
        self.h = nn.ModuleList(Block() for _ in range(cfg.n_layer))
        self.ln_f = nn.LayerNorm(cfg.n_embd)
        self.lm_head = nn.Linear(cfg.n_embd, cfg.vocab, bias=False)
        self.apply(self._init)
        self.lm_head.weight = self.wte.weight  # weight tying

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, idx):
        pos = torch.arange(idx.shape[1], device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


model = GPT().to(device)
decay = [p for n, p in model.named_parameters() if p.ndim >= 2 and "wpe" not in n]
no_decay = [p for n, p in model.named_parameters() if p.ndim < 2 or "wpe" in n]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": no_decay, "weight_decay": 0.0}],
    lr=cfg.lr, betas=(0.9, 0.95), fused=(device == "cuda"),
)


def lr_factor(step):
    if step < cfg.warmup:
        return (step + 1) / cfg.warmup
    done = min(1.0, (step - cfg.warmup) / (cfg.max_steps - cfg.warmup))
    floor = cfg.min_lr / cfg.lr
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_factor)
amp = torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=(device == "cuda"))


@torch.no_grad()
def next_token_nll():
    """NLL of the token that follows a bare prefix: what counts at generation time."""
    model.eval()
    docs = val_docs.to(device).long()
    nlls, floors = [], []
    for n in (4, 10, 16, 22, 28):
        with amp:
            logits = model(docs[:, :n])[:, -1]
        nlls.append(F.cross_entropy(logits.float(), docs[:, n]).item())
        topic, prev, cur = (docs[:, i].cpu() for i in (0, n - 1, n))
        floors.append(-table[topic, prev - cfg.n_topics, cur - cfg.n_topics].log().mean().item())
    model.train()
    return sum(nlls) / len(nlls), sum(floors) / len(floors)


# ----------------------------------------------------------------------------- train
batch_gen = torch.Generator().manual_seed(42)
t0 = time.time()
for step in range(cfg.max_steps):
    running = 0.0
    for micro in range(cfg.grad_accum):
        x, y = get_batch("train", batch_gen)
        with amp:
            logits = model(x)
            loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        (loss / cfg.grad_accum).backward()
        running += loss.detach() / cfg.grad_accum
    norm = nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 50 == 0 or step == cfg.max_steps - 1:
        print(f"step {step:4d} | loss {float(running):.4f} | norm {float(norm):.2f} | "
              f"lr {scheduler.get_last_lr()[0]:.2e} | {time.time() - t0:.1f}s")

nll, floor = next_token_nll()
print(f"final: next-token nll {nll:.4f} (floor {floor:.4f}, excess {nll - floor:.4f})")
