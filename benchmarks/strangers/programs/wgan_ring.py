"""WGAN-GP: ring of gaussians, small trainer class."""
import copy
import math
import sys
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.optim as optim


def ring(per_mode, modes=8, radius=2.0, std=0.08):
    centres = [(radius * math.cos(2 * math.pi * k / modes), radius * math.sin(2 * math.pi * k / modes))
               for k in range(modes)]
    return torch.cat([torch.tensor(c) + std * torch.randn(per_mode, 2) for c in centres])


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2),
                         nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


def orthogonal_copy(net, gain=1.2):
    net = copy.deepcopy(net)
    for m in net.modules():
        if isinstance(m, nn.Linear):
            nn.init.orthogonal_(m.weight, gain)
            nn.init.zeros_(m.bias)
    return net


def sliced_w1(a, b, n_proj=64):
    g = torch.Generator().manual_seed(7)
    d = torch.randn(2, n_proj, generator=g)
    d = d / d.norm(dim=0, keepdim=True)
    pa, pb = (a @ d).sort(0).values, (b @ d).sort(0).values
    return (pa - pb).abs().mean().item()


class WGANTrainer:
    def __init__(self, cfg, data):
        self.cfg, self.data = cfg, data
        self.gen = orthogonal_copy(mlp(cfg.z_dim, cfg.hidden, 2))
        self.critic = mlp(2, cfg.hidden, 1)
        self.opt_g = optim.Adam(self.gen.parameters(), lr=cfg.lr_g, betas=(0.5, 0.9))
        self.opt_c = optim.Adam(self.critic.parameters(), lr=cfg.lr_c, betas=(0.5, 0.9))
        self.sched = [optim.lr_scheduler.LinearLR(o, 1.0, 0.05, total_iters=n) for o, n in
                      ((self.opt_g, cfg.iters), (self.opt_c, cfg.iters * cfg.n_critic))]
        self.history = []

    def real_batch(self):
        idx = torch.randint(0, len(self.data), (self.cfg.batch,))
        return self.data[idx]

    def latent(self, n):
        return torch.randn(n, self.cfg.z_dim)

    def gradient_penalty(self, real, fake):
        eps = torch.rand(real.size(0), 1)
        mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
        out = self.critic(mix)
        grad, = torch.autograd.grad(out.sum(), mix, create_graph=True)
        return ((grad.norm(2, dim=1) - 1) ** 2).mean()

    def critic_step(self):
        real = self.real_batch()
        with torch.no_grad():
            fake = self.gen(self.latent(self.cfg.batch))
        w = self.critic(real).mean() - self.critic(fake).mean()
        loss = -w + self.cfg.gp * self.gradient_penalty(real, fake)
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        self.sched[1].step()
        return w.item()

    def generator_step(self):
        fake = self.gen(self.latent(self.cfg.batch))
        loss = -self.critic(fake).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        self.sched[0].step()
        return loss.item()

    def fit(self):
        for it in range(self.cfg.iters):
            for _ in range(self.cfg.n_critic):
                w = self.critic_step()
            g = self.generator_step()
            self.history.append(w)
            if (it + 1) % 100 == 0:
                print(f"iter {it + 1:4d}  W {w:.4f}  g_loss {g:.4f}  swd {self.score(ring(200)):.4f}")

    @torch.no_grad()
    def score(self, ref):
        return sliced_w1(self.gen(self.latent(len(ref))), ref)


def main(seed):
    torch.manual_seed(seed)
    cfg = SimpleNamespace(z_dim=4, hidden=64, batch=128, iters=700, n_critic=3, gp=1.0, lr_g=2e-3, lr_c=3e-3)
    data, held = ring(800), ring(500)
    tr = WGANTrainer(cfg, data)
    tr.fit()
    print("result %.5f" % tr.score(held))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
