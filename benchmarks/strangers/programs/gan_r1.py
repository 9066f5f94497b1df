import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 7
N_MODES = 8
Z_DIM = 8
BATCH = 256
STEPS = 400
R1_GAMMA = 0.5
R1_EVERY = 4


def real_points(n, gen=None):
    """Ring of narrow Gaussians, standardised to zero mean and unit variance."""
    k = torch.randint(0, N_MODES, (n,), generator=gen)
    ang = 2 * math.pi * k / N_MODES
    centre = torch.stack([ang.cos(), ang.sin()], dim=1)
    pts = 2.0 * centre + 0.08 * torch.randn(n, 2, generator=gen)
    return pts / math.sqrt(2.0)


class Generator(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(Z_DIM, hidden), nn.LeakyReLU(0.2),
            nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
            nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
        )
        self.out = nn.Linear(hidden, 2)

    def forward(self, z):
        return self.out(self.body(z))


class Discriminator(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(2, hidden), nn.LeakyReLU(0.2),
            nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
            nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
        )
        self.score = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.score(self.body(x)).squeeze(1)


class Trainer:
    def __init__(self):
        self.G, self.D = Generator(), Discriminator()
        self.G_avg = copy.deepcopy(self.G).requires_grad_(False)
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=2e-3, betas=(0.0, 0.99))
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=3e-3, betas=(0.0, 0.99))

    def r1(self, real):
        x = real.detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(self.D(x).sum(), x, create_graph=True)
        return grad.square().sum(dim=1).mean()

    def d_step(self, step):
        real = real_points(BATCH)
        fake = self.G(torch.randn(BATCH, Z_DIM)).detach()
        adv = F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake)).mean()
        loss = adv
        if step % R1_EVERY == 0:
            loss = loss + 0.5 * R1_GAMMA * R1_EVERY * self.r1(real)
        self.d_opt.zero_grad()
        loss.backward()
        self.d_opt.step()
        return adv.item()

    def g_step(self):
        z = torch.randn(BATCH, Z_DIM)
        loss = F.softplus(-self.D(self.G(z))).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        return loss.item()

    @torch.no_grad()
    def average(self, step):
        decay = min(0.97, (1 + step) / (10 + step))
        for a, p in zip(self.G_avg.parameters(), self.G.parameters()):
            a.lerp_(p, 1 - decay)


@torch.no_grad()
def sliced_wasserstein(a, b, n_proj=64, seed=0):
    dirs = torch.randn(2, n_proj, generator=torch.Generator().manual_seed(seed))
    dirs = dirs / dirs.norm(dim=0, keepdim=True)
    pa, pb = (a @ dirs).sort(dim=0).values, (b @ dirs).sort(dim=0).values
    return (pa - pb).abs().mean().item()


@torch.no_grad()
def mode_report(x):
    ang = 2 * math.pi * torch.arange(N_MODES) / N_MODES
    centres = math.sqrt(2.0) * torch.stack([ang.cos(), ang.sin()], dim=1)
    dist, which = torch.cdist(x, centres).min(dim=1)
    hit = dist < 0.25
    return len(which[hit].unique()), hit.float().mean().item()


def main():
    torch.manual_seed(SEED)
    tr = Trainer()
    held_out = real_points(4000, torch.Generator().manual_seed(123))
    for step in range(STEPS):
        d_loss = tr.d_step(step)
        g_loss = tr.g_step()
        tr.average(step)
        if step % 50 == 0 or step == STEPS - 1:
            print(f"[{step:4d}] d {d_loss:.4f}  g {g_loss:.4f}")
    with torch.no_grad():
        samples = tr.G_avg(torch.randn(4000, Z_DIM))
    modes, quality = mode_report(samples)
    print(f"modes covered {modes}/{N_MODES}, close to a mode {quality:.2%}")
    print(f"result {sliced_wasserstein(samples, held_out):.4f}")


if __name__ == "__main__":
    main()
