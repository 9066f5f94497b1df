# Conditional GAN on planar data (WGAN-GP), four classes of curves
import json
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    z_dim: int = 8
    hidden: int = 64
    n_classes: int = 4
    batch: int = 128
    g_steps: int = 900
    n_critic: int = 3
    gp: float = 1.0
    lr: float = 1e-3
    seed: int = 13


def sample_real(n, gen=None):
    """Each class is a curve in its own quadrant: ring, line, two blobs, parabola. Coordinates go from about -4 to 4."""
    y = torch.randint(0, 4, (n,), generator=gen)
    t = torch.rand(n, generator=gen)
    ang = 2 * torch.pi * t
    ring = torch.stack([2 + ang.cos(), 2 + ang.sin()], 1)
    line = torch.stack([-3.5 + 3 * t, 1 + 2.5 * t], 1)
    blob = torch.stack([-3.0 + 2.0 * (t > 0.5).float(), torch.full_like(t, -2.0)], 1)
    para = torch.stack([0.8 + 2.5 * t, -3.5 + 6 * (t - 0.5) ** 2], 1)
    pts = torch.stack([ring, line, blob, para], 1)[torch.arange(n), y]
    return pts + 0.1 * torch.randn(n, 2, generator=gen), y


class Generator(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.label = nn.Embedding(c.n_classes, 8)
        self.net = nn.Sequential(
            nn.Linear(c.z_dim + 8, c.hidden), nn.LeakyReLU(0.2),
            nn.Linear(c.hidden, c.hidden), nn.LeakyReLU(0.2),
            nn.Linear(c.hidden, 2),
        )

    def forward(self, z, y):
        return self.net(torch.cat([z, self.label(y)], 1))


class Critic(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.label = nn.Embedding(c.n_classes, 8)
        self.net = nn.Sequential(
            nn.Linear(2 + 8, c.hidden), nn.LeakyReLU(0.2),
            nn.Linear(c.hidden, c.hidden), nn.LeakyReLU(0.2),
            nn.Linear(c.hidden, 1),
        )

    def forward(self, x, y):
        return self.net(torch.cat([x, self.label(y)], 1)).squeeze(1)


def gradient_penalty(D, real, fake, y):
    eps = torch.rand(real.size(0), 1)
    mix = (eps * real + (1 - eps) * fake.detach()).requires_grad_(True)
    grad, = torch.autograd.grad(D(mix, y).sum(), mix, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


@torch.no_grad()
def sliced_w(a, b, n_proj=64):
    g = torch.Generator().manual_seed(0)
    d = torch.randn(2, n_proj, generator=g)
    d = d / d.norm(dim=0, keepdim=True)
    return ((a @ d).sort(0).values - (b @ d).sort(0).values).abs().mean().item()


@torch.no_grad()
def score(G, c):
    gen = torch.Generator().manual_seed(4242)
    x, y = sample_real(8000, gen)
    total = 0.0
    for k in range(c.n_classes):
        xr = x[y == k]
        yk = torch.full((len(xr),), k)
        total += sliced_w(G(torch.randn(len(xr), c.z_dim), yk), xr)
    return total / c.n_classes


class Trainer:
    def __init__(self, c):
        self.c = c
        self.G, self.D = Generator(c), Critic(c)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=c.lr, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=c.lr, betas=(0.5, 0.9))

    def critic_step(self):
        c = self.c
        real, y = sample_real(c.batch)
        fake = self.G(torch.randn(c.batch, c.z_dim), y).detach()
        gap = self.D(fake, y).mean() - self.D(real, y).mean()
        loss = gap + c.gp * gradient_penalty(self.D, real, fake, y)
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def generator_step(self):
        c = self.c
        y = torch.randint(0, c.n_classes, (c.batch,))
        fake = self.G(torch.randn(c.batch, c.z_dim), y)
        loss = -self.D(fake, y).mean()
        loss.backward()
        self.opt_g.step()
        return loss.item()

    def fit(self):
        for step in range(self.c.g_steps):
            self.opt_g.zero_grad()
            for _ in range(self.c.n_critic):
                d_loss = self.critic_step()
            g_loss = self.generator_step()
            if step == int(0.6 * self.c.g_steps):
                for o in (self.opt_g, self.opt_d):
                    o.param_groups[0]["lr"] *= 0.3
            if step % 150 == 0:
                print(f"step {step:5d} | critic {d_loss:.4f} | gen {g_loss:.4f} | swd {score(self.G, self.c):.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    cfg = Config()
    torch.manual_seed(cfg.seed)
    trainer = Trainer(cfg)
    trainer.fit()
    print("RESULT " + json.dumps({"metric": "class_sliced_wasserstein", "value": round(score(trainer.G, cfg), 4), "better": "lower"}))
