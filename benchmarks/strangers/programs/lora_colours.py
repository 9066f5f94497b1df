"""Adapt a pretrained sequence classifier to a new customer with low-rank adapters."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

N_SHAPE, N_COLOR, LENGTH = 8, 8, 10
VOCAB = N_SHAPE * N_COLOR + 1
CLS = VOCAB - 1


def make_task(n, key_shape, recolor, gen, noise=0.03):
    """Each row holds every shape once plus repeats of others; the label is the color of `key_shape`."""
    shapes = torch.stack([torch.randperm(N_SHAPE, generator=gen) for _ in range(n)])
    colors = torch.randint(N_COLOR, (n, N_SHAPE), generator=gen)
    tokens = shapes * N_COLOR + colors
    label = recolor[colors[shapes == key_shape]]
    flip = torch.rand(n, generator=gen) < noise
    label = torch.where(flip, torch.randint(N_COLOR, (n,), generator=gen), label)
    cls = torch.full((n, 1), CLS)
    return TensorDataset(torch.cat([cls, tokens], 1), label)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(d)
        self.q_proj = nn.Linear(d, d)
        self.k_proj = nn.Linear(d, d)
        self.v_proj = nn.Linear(d, d)
        self.o_proj = nn.Linear(d, d)
        self.ln2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, 2 * d)
        self.fc2 = nn.Linear(2 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        h = self.ln1(x)
        split = lambda z: z.view(b, t, self.heads, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(split(self.q_proj(h)), split(self.k_proj(h)), split(self.v_proj(h)))
        x = x + self.o_proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Net(nn.Module):
    def __init__(self, d=48, heads=4, depth=2, checkpointing=False):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d)
        nn.init.normal_(self.embed.weight, std=0.5)
        self.blocks = nn.ModuleList([Block(d, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, N_COLOR)
        self.checkpointing = checkpointing

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            if self.checkpointing and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(self.norm(x[:, 0]))


class LoRALinear(nn.Module):
    def __init__(self, base, r=8, alpha=16):
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.scale = alpha / r
        self.merged = False

    def forward(self, x):
        y = self.base(x)
        if not self.merged:
            y = y + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)
        return y

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scale * (self.lora_b @ self.lora_a)
        self.merged = True


def inject(model, names=("q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2")):
    for p in model.parameters():
        p.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child))
    for p in model.head.parameters():
        p.requires_grad_(True)
    return model


def merge_all(model):
    for m in model.modules():
        if isinstance(m, LoRALinear):
            m.merge()


def evaluate(model, loader):
    model.eval()
    loss = right = n = 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            right += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, right / n


def fit(model, train, val, steps, lr, tag):
    params = [p for p in model.parameters() if p.requires_grad]
    print(f"[{tag}] trainable {sum(p.numel() for p in params)} of {sum(p.numel() for p in model.parameters())}")
    opt = torch.optim.AdamW(params, lr=lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=lr, total_steps=steps, pct_start=0.1)
    step = 0
    while step < steps:
        for x, y in train:
            model.train()
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            opt.step()
            sched.step()
            if step % 60 == 0:
                vl, va = evaluate(model, val)
                print(f"[{tag}] {step:4d} train {loss.item():.4f} val {vl:.4f} acc {va:.3f}")
            step += 1
            if step == steps:
                break


def main(seed):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed + 100)
    same = torch.arange(N_COLOR)
    other = torch.randperm(N_COLOR, generator=gen)
    make = lambda n, k, m, shuffle: DataLoader(make_task(n, k, m, gen), batch_size=32, shuffle=shuffle)
    src_train, src_val = make(4000, 0, same, True), make(400, 0, same, False)
    new_train, new_val, new_test = make(3000, 3, other, True), make(300, 3, other, False), make(1000, 3, other, False)

    model = Net()
    fit(model, src_train, src_val, 160, 3e-3, "base")
    inject(model)
    model.checkpointing = True
    fit(model, new_train, new_val, 260, 6e-3, "lora")
    merge_all(model)
    loss, acc = evaluate(model, new_test)
    print(f"test accuracy {acc:.3f}")
    print(f"result {loss:.5f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
