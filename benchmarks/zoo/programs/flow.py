"""RealNVP on a two-dimensional spiral: maximum likelihood."""

import sys
import math
import torch
from torch import nn
from torch.distributions import MultivariateNormal

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def spiral(n):
    t = 3 * math.pi * torch.rand(n).sqrt()
    sign = torch.where(torch.rand(n) < 0.5, 1.0, -1.0)
    x = torch.stack([sign * t * torch.cos(t), sign * t * torch.sin(t)], 1) / 5
    return x + 0.05 * torch.randn(n, 2)


class AffineCoupling(nn.Module):
    def __init__(self, mask, hidden=64):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(
            nn.Linear(2, hidden),
            nn.LeakyReLU(),
            nn.Linear(hidden, hidden),
            nn.LeakyReLU(),
            nn.Linear(hidden, 2),
            nn.Tanh(),
        )
        self.t = nn.Sequential(
            nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2)
        )

    def forward(self, x):
        kept = x * self.mask
        s = self.s(kept) * (1 - self.mask)
        t = self.t(kept) * (1 - self.mask)
        z = kept + (1 - self.mask) * (x * torch.exp(s) + t)
        return z, s.sum(dim=1)


class RealNVP(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        masks = [torch.tensor([1.0, 0.0]) if i % 2 else torch.tensor([0.0, 1.0]) for i in range(layers)]
        self.layers = nn.ModuleList(AffineCoupling(m) for m in masks)
        self.prior = MultivariateNormal(torch.zeros(2), torch.eye(2))

    def log_prob(self, x):
        log_det = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            log_det = log_det + ld
        return self.prior.log_prob(x) + log_det

    def forward(self, x):
        return -self.log_prob(x).mean()


flow = RealNVP()
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
for t in range(900):
    loss = flow(spiral(200))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if t % 150 == 0:
        print(f"iter {t}: loss = {loss.item():.3f}")
with torch.no_grad():
    print("result", flow(spiral(4000)).item())
