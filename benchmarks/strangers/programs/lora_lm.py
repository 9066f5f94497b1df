"""Adapt a frozen causal LM with hand-written LoRA.

The trunk (2 layers, tied head) is first trained on "language A"; then it is frozen and LoRA adapters (plus the norms)
are fitted to "language B". At the end adapters are merged and the merged model is scored by greedy roll-outs.
"""
import math
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 24
    keys: int = 4
    length: int = 16
    dim: int = 64
    heads: int = 4
    layers: int = 2
    dropout: float = 0.05
    rank: int = 8
    alpha: int = 32
    pre_steps: int = 170
    ft_steps: int = 160
    accum: int = 2
    batch: int = 32
    lr_pre: float = 4e-3
    lr_ft: float = 4e-3
    seed: int = 5


C = Config()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(C.seed)


class Language:
    """first token: a key; then x[t+1] = perm[key](x[t]); B uses the same words and keys but other rules"""

    def __init__(self, seed, flip):
        g = torch.Generator().manual_seed(seed)
        self.table = torch.stack([torch.randperm(C.vocab, generator=g) for _ in range(C.keys)]).to(device)
        if flip:  # B: the keys change their roles, and a quarter of the entries is redrawn
            self.table = self.table.roll(1, 0)
            for k in range(C.keys):
                idx = torch.randperm(C.vocab, generator=g)[: C.vocab // 4].to(device)
                self.table[k, idx] = self.table[k, idx.roll(1)]

    def sample(self, n):
        key = torch.randint(C.keys, (n,), device=device)
        x = torch.randint(C.vocab, (n,), device=device)
        seq = [key + C.vocab, x]
        for _ in range(C.length - 1):
            x = self.table[key, x]
            seq.append(x)
        return torch.stack(seq, 1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h = c.heads
        self.wqkv = nn.Linear(c.dim, 3 * c.dim, bias=False)
        self.wo = nn.Linear(c.dim, c.dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, D))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.attn = Attention(c)
        self.up, self.down = nn.Linear(c.dim, 4 * c.dim), nn.Linear(4 * c.dim, c.dim)
        self.drop = nn.Dropout(c.dropout)

    def forward(self, x):
        x = x + self.drop(self.attn(self.norm1(x)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class LM(nn.Module):
    def __init__(self, c):
        super().__init__()
        n = c.vocab + c.keys
        self.tok, self.pos = nn.Embedding(n, c.dim), nn.Embedding(c.length + 1, c.dim)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.dim)
        self.head = nn.Linear(c.dim, n, bias=False)
        nn.init.normal_(self.tok.weight, std=0.05)
        nn.init.normal_(self.pos.weight, std=0.05)
        self.head.weight = self.tok.weight  # tied

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r, alpha):
        super().__init__()
        self.base, self.scaling = base, alpha / r
        self.A = nn.Parameter(torch.randn(r, base.in_features, device=base.weight.device) / math.sqrt(base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r, device=base.weight.device))

    def forward(self, x):
        return self.base(x) + self.scaling * F.linear(F.linear(x, self.A), self.B)

    @torch.no_grad()
    def merged(self):
        self.base.weight += self.scaling * self.B @ self.A
        return self.base


def swap(model, kind, fn):
    for mod in list(model.modules()):
        for name, child in list(mod.named_children()):
            if isinstance(child, kind) and name != "head" and not isinstance(mod, LoRALinear):
                setattr(mod, name, fn(child))


def fit(model, lang, steps, lr, tag, accum):
    train = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(train, lr=lr, weight_decay=0.01, betas=(0.9, 0.98), fused=device == "cuda")
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, lr, total_steps=steps, pct_start=0.1, cycle_momentum=False)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    step_fn = torch.compile(model, backend="inductor") if device == "cuda" and tag == "lora" else model
    model.train()
    print(f"{tag}: {sum(p.numel() for p in train)} trainable of {sum(p.numel() for p in model.parameters())}")
    for step in range(steps):
        for _ in range(accum):
            ids = lang.sample(C.batch // accum)
            with torch.autocast(device, dtype=torch.float16 if device == "cuda" else torch.bfloat16, enabled=device == "cuda"):
                logits = step_fn(ids[:, :-1])
            # position 0 predicts the random first word: left out
            loss = F.cross_entropy(logits[:, 1:].float().flatten(0, 1), ids[:, 2:].flatten())
            scaler.scale(loss / accum).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(train, 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        sched.step()
        if step % 40 == 0 or step == steps - 1:
            print(f"{tag} step {step} loss {loss.item():.4f}")


@torch.no_grad()
def rollout_accuracy(model, lang, n=256, ahead=6):
    model.eval()
    truth = lang.sample(n)
    ids = truth[:, :2]
    for _ in range(ahead):
        nxt = model(ids)[:, -1, : C.vocab].argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt], 1)
    return (ids[:, 2:] == truth[:, 2:2 + ahead]).float().mean().item()


def main():
    t0 = time.time()
    A, B = Language(1, False), Language(1, True)
    model = LM(C).to(device)
    fit(model, A, C.pre_steps, C.lr_pre, "trunk", 1)
    acc_a = rollout_accuracy(model, A)
    acc_b0 = rollout_accuracy(model, B)
    model.requires_grad_(False)
    swap(model, nn.Linear, lambda lin: LoRALinear(lin, C.rank, C.alpha))
    for name, p in model.named_parameters():
        p.requires_grad_("norm" in name or name.endswith((".A", ".B")))
    fit(model, B, C.ft_steps, C.lr_ft, "lora", C.accum)
    swap(model, LoRALinear, LoRALinear.merged)
    acc_b = rollout_accuracy(model, B)
    print(f"time {time.time() - t0:.1f}s  trunk on A {acc_a:.3f}, on B {acc_b0:.3f}")
    print(f"FINAL merged model on B, 6-step roll-out accuracy {acc_b:.3f} (chance {1 / C.vocab:.3f})")


if __name__ == "__main__":
    main()
