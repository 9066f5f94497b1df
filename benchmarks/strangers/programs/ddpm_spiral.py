# DDPM on a 2-D two-arm spiral. Usage: python ddpm.py SEED
import copy
import math
import sys
import torch
from torch import nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

T = 60
STEPS = 1800
BATCH = 256
EMA_DECAY = 0.995


def spiral(n):
    r = torch.rand(n).sqrt() * 3 * math.pi
    arm = torch.randint(0, 2, (n,)) * math.pi
    pts = torch.stack([r * torch.cos(r + arm), r * torch.sin(r + arm)], 1)
    return (pts + 0.15 * torch.randn(n, 2)) / 5.0


def cosine_betas(T, s=0.008):
    u = torch.linspace(0, T, T + 1) / T
    f = torch.cos((u + s) / (1 + s) * math.pi / 2) ** 2
    return (1 - f[1:] / f[:-1]).clamp(max=0.98)


betas = cosine_betas(T)
alphas = 1.0 - betas
abar = torch.cumprod(alphas, 0)
abar_prev = torch.cat([torch.ones(1), abar[:-1]])


def time_embedding(t, dim=32):
    freqs = torch.exp(-math.log(1000.0) * torch.arange(dim // 2) / (dim // 2))
    arg = t.float()[:, None] * freqs[None]
    return torch.cat([arg.sin(), arg.cos()], 1)


class Denoiser(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.temb = nn.Sequential(nn.Linear(32, h), nn.SiLU(), nn.Linear(h, h))
        self.inp = nn.Linear(2, h)
        self.mid = nn.ModuleList([nn.Linear(h, h) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(h) for _ in range(3)])
        self.out = nn.Linear(h, 2)

    def forward(self, x, t):
        h = self.inp(x)
        e = self.temb(time_embedding(t))
        for lin, norm in zip(self.mid, self.norms):
            h = h + lin(nn.functional.silu(norm(h) + e))
        return self.out(h)


def q_sample(x0, t, noise):
    a = abar[t].unsqueeze(1)
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


@torch.no_grad()
def update_ema(ema, model, decay):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


@torch.no_grad()
def sample(net, n):
    x = torch.randn(n, 2)
    for i in reversed(range(T)):
        t = torch.full((n,), i)
        eps = net(x, t)
        mean = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        var = betas[i] * (1 - abar_prev[i]) / (1 - abar[i])
        x = mean + var.sqrt() * torch.randn_like(x) if i > 0 else mean
    return x


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


train = spiral(8000)
held_out = spiral(2000)
model = Denoiser()
ema = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)

avg = 0.0
for step in range(1, STEPS + 1):
    x0 = train[torch.randint(0, len(train), (BATCH,))]
    t = torch.randint(0, T, (BATCH,))
    noise = torch.randn_like(x0)
    pred = model(q_sample(x0, t, noise), t)
    loss = ((pred - noise) ** 2).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    update_ema(ema, model, EMA_DECAY)
    avg += loss.item()
    if step % 300 == 0:
        print(f"step {step} loss {avg / 300:.4f} lr {sched.get_last_lr()[0]:.2e}")
        avg = 0.0

samples = sample(ema, 2000)
# nearest-neighbour term makes the thin arms count, the energy term the overall spread
near = torch.cdist(samples, held_out).min(1).values.mean().item()
print("energy", energy_distance(samples, held_out), "nearest", near)
print("result", round(energy_distance(samples, held_out) + near, 5))
