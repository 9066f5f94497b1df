import json
import math

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(3)


def two_rings_and_bar(n, gen):
    """4-d toy density: a noisy ring, a position along it and a skewed, correlated pair."""
    ang = 2 * math.pi * torch.rand(n, generator=gen)
    r = torch.where(torch.rand(n, generator=gen) < 0.5, 1.0, 2.2) + 0.08 * torch.randn(n, generator=gen)
    a, b = r * torch.cos(ang), r * torch.sin(ang)
    c = 0.6 * a ** 2 + 0.15 * torch.randn(n, generator=gen)
    d = torch.sin(2 * b) + 0.3 * c + 0.1 * torch.randn(n, generator=gen)
    return torch.stack([a, b, 10 + 5 * c, d], dim=1)


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    def init_from(self, x):
        with torch.no_grad():
            self.shift.copy_(-x.mean(0))
            self.log_scale.copy_(-torch.log(x.std(0) + 1e-6))

    def forward(self, x):
        y = (x + self.shift) * torch.exp(self.log_scale)
        return y, self.log_scale.sum().expand(x.shape[0])

    def inverse(self, y):
        return y * torch.exp(-self.log_scale) - self.shift


class Coupling(nn.Module):
    def __init__(self, dim, hidden, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2 * dim),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def st(self, x):
        s, t = self.net(x * self.mask).chunk(2, dim=1)
        s = 2.0 * torch.tanh(s / 2.0) * (1 - self.mask)
        return s, t * (1 - self.mask)

    def forward(self, x):
        s, t = self.st(x)
        return x * torch.exp(s) + t, s.sum(dim=1)

    def inverse(self, y):
        s, t = self.st(y)
        return (y - t) * torch.exp(-s)


class RealNVP(nn.Module):
    def __init__(self, dim=4, depth=8, hidden=64):
        super().__init__()
        masks = [torch.tensor([1., 1., 0., 0.]), torch.tensor([1., 0., 1., 0.])]
        layers = []
        for k in range(depth):
            m = masks[(k // 2) % 2]
            if k % 2:
                m = 1 - m
            layers += [ActNorm(dim), Coupling(dim, hidden, m)]
        self.layers = nn.ModuleList(layers)
        self.dim = dim

    def forward(self, x):
        logdet = torch.zeros(x.shape[0])
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        return x, logdet

    def log_prob(self, x):
        z, logdet = self(x)
        logp = -0.5 * (z ** 2 + math.log(2 * math.pi)).sum(dim=1)
        return logp + logdet

    def sample(self, n):
        z = torch.randn(n, self.dim)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z

    @torch.no_grad()
    def data_init(self, x):
        for layer in self.layers:
            if isinstance(layer, ActNorm):
                layer.init_from(x)
            x, _ = layer(x)


def sliced_wasserstein(a, b, scale, n_proj=256):
    a, b = a / scale, b / scale
    g = torch.Generator().manual_seed(99)
    w = torch.randn(a.shape[1], n_proj, generator=g)
    w = w / w.norm(dim=0, keepdim=True)
    pa, pb = (a @ w).sort(dim=0).values, (b @ w).sort(dim=0).values
    return (pa - pb).abs().mean().item()


gen = torch.Generator().manual_seed(0)
train_x = two_rings_and_bar(20000, gen)
test_x = two_rings_and_bar(5000, gen)
mean, std = train_x.mean(0), train_x.std(0)
train_n = (train_x - mean) / std

flow = RealNVP()
flow.data_init(train_n[:1000])
opt = torch.optim.Adam(flow.parameters(), lr=2e-3)
steps = 1200
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)

for it in range(steps):
    xb = train_n[torch.randint(0, len(train_n), (256,))]
    loss = -flow.log_prob(xb).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if it % 100 == 0:
        print(f"it {it:5d}  nll {loss.item():.4f}")

flow.eval()
with torch.no_grad():
    gen_x = flow.sample(5000) * std + mean
    print("test nll", -flow.log_prob((test_x - mean) / std).mean().item())
swd = sliced_wasserstein(gen_x, test_x, std)
print("RESULT " + json.dumps({"metric": "sliced_wasserstein", "value": swd, "better": "lower"}))
