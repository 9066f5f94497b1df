"""DDPM on a two-dimensional checkerboard: predict the noise, EMA for sampling."""

import math
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
T = 50
betas = torch.linspace(1e-4, 0.2, T)
alphas = 1.0 - betas
alphas_cumprod = torch.cumprod(alphas, dim=0)


def checkerboard(n):
    x1 = torch.rand(n) * 4 - 2
    x2 = torch.rand(n) - torch.randint(0, 2, (n,)) * 2 + torch.floor(x1) % 2
    return torch.stack([x1, x2], 1)


class SinusoidalEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        freqs = torch.exp(-math.log(1000) * torch.arange(half) / half)
        angles = t.float()[:, None] * freqs[None]
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.time_mlp = nn.Sequential(SinusoidalEmbedding(32), nn.Linear(32, hidden), nn.SiLU())
        self.inp = nn.Linear(2, hidden)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden)) for _ in range(3)
        )
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, t):
        h, emb = self.inp(x), self.time_mlp(t)
        for block in self.blocks:
            h = h + block(F.silu(h + emb))
        return self.out(F.silu(h))


def q_sample(x0, t, noise):
    a = alphas_cumprod[t][:, None]
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


@torch.no_grad()
def sample(model, n):
    x = torch.randn(n, 2)
    for i in reversed(range(T)):
        eps = model(x, torch.full((n,), i))
        x = (x - betas[i] / (1 - alphas_cumprod[i]).sqrt() * eps) / alphas[i].sqrt()
        if i:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


model, ema = Denoiser(), Denoiser()
ema.load_state_dict(model.state_dict())
ema.requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(1500):
    x0 = checkerboard(256)
    t = torch.randint(0, T, (256,))
    noise = torch.randn_like(x0)
    loss = F.mse_loss(model(q_sample(x0, t, noise), t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, e in zip(model.parameters(), ema.parameters()):
            e.lerp_(p, 0.01)
    if step % 300 == 0:
        print(step, loss.item())

with torch.no_grad():
    a, b, c = sample(ema, 2000), checkerboard(2000), checkerboard(2000)
    energy = 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, c).mean()
    x0, t = checkerboard(8000), torch.randint(0, T, (8000,))
    noise = torch.randn_like(x0)
    final = F.mse_loss(ema(q_sample(x0, t, noise), t), noise)
print("energy distance", energy.item())
print("result", (energy + final).item())
