"""DDPM on a 2-D pinwheel."""
import copy
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(11)

T = 60
STEPS_PER_EPOCH = 48
EPOCHS = 24


def pinwheel(n, arms=5, gen=None):
    arm = torch.randint(0, arms, (n,), generator=gen)
    r = 0.55 * torch.randn(n, generator=gen).abs() + 0.35
    tang = 0.07 * torch.randn(n, generator=gen)
    ang = 2 * math.pi * arm / arms + 1.1 * r
    x = torch.stack([r * ang.cos() - tang * ang.sin(), r * ang.sin() + tang * ang.cos()], 1)
    return 1.3 * x + torch.tensor([0.3, -0.2])


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(50.0), dim // 2)))
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        s = t / T
        a = s[:, None] * self.freqs[None]
        return self.proj(torch.cat([a.sin(), a.cos()], -1))


class ResBlock(nn.Module):
    def __init__(self, width, tdim):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.l1 = nn.Linear(width, width)
        self.t = nn.Linear(tdim, width)
        self.l2 = nn.Linear(width, width)

    def forward(self, h, temb):
        z = F.silu(self.l1(self.norm(h)) + self.t(temb))
        return h + self.l2(z)


class Denoiser(nn.Module):
    def __init__(self, width=96, tdim=32, depth=3):
        super().__init__()
        self.time = TimeEmbedding(tdim)
        self.inp = nn.Linear(2, width)
        self.blocks = nn.ModuleList([ResBlock(width, tdim) for _ in range(depth)])
        self.out = nn.Sequential(nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        temb = self.time(t)
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, temb)
        return self.out(h)


class Diffusion:
    def __init__(self, T):
        self.T = T
        self.betas = torch.linspace(1e-3, 0.2, T)
        self.alphas = 1.0 - self.betas
        self.abar = torch.cumprod(self.alphas, 0)

    def q_sample(self, x0, t, noise):
        a = self.abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * noise

    def loss(self, model, x0):
        t = torch.randint(0, self.T, (x0.shape[0],))
        noise = torch.randn_like(x0)
        xt = self.q_sample(x0, t, noise)
        pred = model(xt, t)
        return F.mse_loss(pred, noise)

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, 2)
        for i in reversed(range(self.T)):
            t = torch.full((n,), i)
            eps = model(x, t)
            x = (x - self.betas[i] / (1 - self.abar[i]).sqrt() * eps) / self.alphas[i].sqrt()
            if i > 0:
                x = x + self.betas[i].sqrt() * torch.randn_like(x)
        return x


@torch.no_grad()
def ema_update(ema, model, decay):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


def sliced_wasserstein(a, b, nproj=128):
    g = torch.Generator().manual_seed(5)
    d = F.normalize(torch.randn(2, nproj, generator=g), dim=0)
    pa, pb = (a @ d).sort(0).values, (b @ d).sort(0).values
    return (pa - pb).abs().mean().item()


def main():
    train = pinwheel(STEPS_PER_EPOCH * 256)
    test = pinwheel(4000, gen=torch.Generator().manual_seed(99))
    mean, std = train.mean(0), train.std(0)
    loader = DataLoader(TensorDataset((train - mean) / std), batch_size=256, shuffle=True)

    model = Denoiser()
    ema = copy.deepcopy(model)
    diff = Diffusion(T)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS * len(loader))

    for epoch in range(EPOCHS):
        total = 0.0
        for (x0,) in loader:
            loss = diff.loss(model, x0)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            ema_update(ema, model, 0.99)
            total += loss.item()
        if epoch % 4 == 0 or epoch == EPOCHS - 1:
            print(f"epoch {epoch:2d}  eps-mse {total / len(loader):.4f}")

    torch.manual_seed(1)
    samples = diff.sample(ema, 4000) * std + mean
    sw = sliced_wasserstein(samples, test)
    print("RESULT", json.dumps({"metric": "sliced_wasserstein", "value": round(sw, 4), "better": "lower"}))


if __name__ == "__main__":
    main()
