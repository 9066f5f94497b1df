# Encoder classifier trained with bfloat16 weights; fp32 master weights and Adam state are kept by hand (no autocast, no apex).
# Task: a sequence holds counters of four colours plus one "rule" token. Label = (majority colour + shift(rule)) % 4.
import math, time
import torch
import torch.nn as nn
import torch.nn.functional as F

dev = "cuda" if torch.cuda.is_available() else "cpu"
g = torch.Generator().manual_seed(5)
torch.manual_seed(5)

COLOURS, PER_COLOUR, RULES, FILL = 4, 3, 4, 10
CLS, PAD = 0, 1
FIRST_RULE = 2
FIRST_COLOUR = FIRST_RULE + RULES
FIRST_FILL = FIRST_COLOUR + COLOURS * PER_COLOUR
VOCAB = FIRST_FILL + FILL
MAXLEN, D, HEADS, LAYERS = 20, 32, 2, 2
STEPS, BATCH, LR, WARMUP = 500, 32, 2e-3, 30


def make(n):
    ids = torch.full((n, MAXLEN), PAD)
    y = torch.empty(n, dtype=torch.long)
    for r in range(n):
        L = int(torch.randint(8, MAXLEN, (1,), generator=g))
        # the plain rule (shift 0) is the most frequent one
        rule = int(torch.multinomial(torch.tensor([0.4, 0.2, 0.2, 0.2]), 1, generator=g))
        while True:
            colours = torch.randint(0, COLOURS, (L - 2 - L // 4,), generator=g)
            counts = torch.bincount(colours, minlength=COLOURS)
            top = counts.topk(2).values
            if top[0] > top[1]:
                break
        tok = FIRST_COLOUR + colours * PER_COLOUR + torch.randint(0, PER_COLOUR, colours.shape, generator=g)
        fill = FIRST_FILL + torch.randint(0, FILL, (L // 4,), generator=g)
        body = torch.cat([tok, fill, torch.tensor([FIRST_RULE + rule])])
        ids[r, 0] = CLS
        ids[r, 1:L] = body[torch.randperm(len(body), generator=g)]
        y[r] = (int(counts.argmax()) + rule) % COLOURS
    return ids, y


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x, keep):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, HEADS, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])  # True = may be attended
        x = x + self.o(a.transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, D)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(D)
        self.cls = nn.Linear(D, COLOURS)
        nn.init.normal_(self.tok.weight, std=0.5)

    def forward(self, ids):
        keep = ids != PAD
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x, keep)
        w = keep.unsqueeze(-1).to(x.dtype)
        pooled = (self.norm(x) * w).sum(1) / w.sum(1)
        return self.cls(pooled).float()


train_ids, train_y = (t.to(dev) for t in make(8000))
test_ids, test_y = (t.to(dev) for t in make(1000))

model = Encoder().to(dev)
# ---- master weights: fp32, taken before the model is cast down
masters = [p.detach().clone().requires_grad_(True) for p in model.parameters()]
model.to(torch.bfloat16)
working = list(model.parameters())
opt = torch.optim.AdamW(masters, lr=LR, betas=(0.9, 0.98), weight_decay=0.01, fused=(dev == "cuda"))


def lr_at(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    return LR * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))))


@torch.no_grad()
def accuracy():
    model.eval()
    hit = sum((model(i).argmax(-1) == y).sum().item() for i, y in zip(test_ids.split(250), test_y.split(250)))
    model.train()
    return hit / len(test_y)


began, avg = time.time(), None
for step in range(STEPS):
    pick = torch.randint(0, len(train_y), (BATCH,), device=dev)
    loss = F.cross_entropy(model(train_ids[pick]), train_y[pick])
    loss.backward()

    # bf16 gradients -> fp32 masters, step there, write the weights back
    for m, p in zip(masters, working):
        m.grad = p.grad.float()
        p.grad = None
    torch.nn.utils.clip_grad_norm_(masters, 1.0)
    for group in opt.param_groups:
        group["lr"] = lr_at(step)
    opt.step()
    with torch.no_grad():
        torch._foreach_copy_(working, masters)

    avg = loss.detach() if avg is None else avg.lerp(loss.detach(), 0.05)
    if step % 75 == 0:
        print(f"{step:4d} loss {avg.item():.4f} ({time.time() - began:.1f}s)", flush=True)

print(f"final: test accuracy {accuracy():.4f} (chance 0.25)")
