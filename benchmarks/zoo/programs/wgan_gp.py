"""WGAN with gradient penalty on two moons, five critic steps for one of the generator."""

import sys
import numpy as np
import torch
from torch import nn, autograd

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
rng = np.random.RandomState(seed)
LAMBDA, CRITIC_ITERS, BATCH = 1.0, 5, 128


def moons(n):
    t = rng.uniform(0, np.pi, n)
    upper = rng.rand(n) < 0.5
    xy = np.where(upper[:, None], np.c_[np.cos(t), np.sin(t)], np.c_[1 - np.cos(t), 0.5 - np.sin(t)])
    return torch.tensor(xy + rng.normal(0, 0.05, (n, 2)), dtype=torch.float32)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, o))


def calc_gradient_penalty(netD, real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    gradients = autograd.grad(netD(mixed).sum(), mixed, create_graph=True)[0]
    return LAMBDA * ((gradients.norm(2, dim=1) - 1) ** 2).mean()


netG, netD = mlp(4, 2), mlp(2, 1)
optD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
optG = torch.optim.Adam(netG.parameters(), lr=5e-4, betas=(0.5, 0.9))
for iteration in range(400):
    for p in netD.parameters():
        p.requires_grad_(True)
    for _ in range(CRITIC_ITERS):
        optD.zero_grad()
        real = moons(BATCH)
        with torch.no_grad():
            fake = netG(torch.randn(BATCH, 4))
        D_cost = netD(fake).mean() - netD(real).mean() + calc_gradient_penalty(netD, real, fake)
        D_cost.backward()
        optD.step()
    for p in netD.parameters():
        p.requires_grad_(False)
    optG.zero_grad()
    G_cost = -netD(netG(torch.randn(BATCH, 4))).mean()
    G_cost.backward()
    optG.step()
    if iteration % 100 == 0:
        print(iteration, D_cost.item(), G_cost.item())

with torch.no_grad():
    a, b, c = netG(torch.randn(1500, 4)), moons(1500), moons(1500)
    energy = 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, c).mean()
print("result", float(energy))
