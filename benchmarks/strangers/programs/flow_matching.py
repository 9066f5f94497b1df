import copy, math, sys
import torch
import torch.nn as nn

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)

STEPS, B, K = 900, 256, 5


def make(n):
    c = torch.randint(0, K, (n,))
    u = torch.rand(n)
    ang = 2 * math.pi * c / K + 1.6 * u
    rad = 1.0 + 2.0 * u
    x = torch.stack([rad * ang.cos(), rad * ang.sin()], 1) + 0.08 * torch.randn(n, 2)
    return x * torch.tensor([1.0, 1.4]) + torch.tensor([2.0, -1.0]), c


data, lab = make(6000)
held, held_lab = make(1500)
mu, sd = data.mean(0), data.std(0)
data = (data - mu) / sd


class TimeEmb(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, -math.log(1000.0), dim // 2)))
        self.lin = nn.Linear(dim, 64)

    def forward(self, t):
        k = (t * 100).long().float()
        a = k[:, None] * self.freq
        return self.lin(torch.cat([a.sin(), a.cos()], 1))


class Velocity(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.temb = TimeEmb()
        self.cemb = nn.Embedding(K, 64)
        self.inp = nn.Linear(2, 64)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(64, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2))

    def forward(self, x, t, c):
        return self.body(self.inp(x) + self.temb(t) + self.cemb(c))


@torch.no_grad()
def update_ema(ema, net, decay):
    for pe, p in zip(ema.parameters(), net.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


@torch.no_grad()
def sample(net, c, n_steps=40):
    x = torch.randn(len(c), 2)
    for i in range(n_steps):
        t = torch.full((len(c),), (i + 0.5) / n_steps)
        x = x + net(x, t, c) / n_steps
    return x * sd + mu


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def score(net):
    gen = sample(net, held_lab)
    return sum(max(energy_distance(gen[held_lab == k], held[held_lab == k]), 0.0) for k in range(K)) / K


net = Velocity()
ema = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=STEPS)
print("start", score(net))

avg = 0.0
for step in range(STEPS):
    idx = torch.randint(0, len(data), (B,))
    x1, c = data[idx], lab[idx]
    x0 = torch.randn_like(x1)
    t = torch.rand(B)
    xt = (1 - t)[:, None] * x0 + t[:, None] * x1
    target = x1 - x0
    loss = ((net(xt, t, c) - target) ** 2).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    sched.step()
    update_ema(ema, net, 0.98)
    avg += loss.item()
    if (step + 1) % 150 == 0:
        print(f"{step + 1} loss {avg / 150:.4f} dist {score(ema):.4f}")
        avg = 0.0

print("result", sum(score(ema) for _ in range(4)) / 4)
