"""Denoising score matching over a ladder of noise levels on a 2-D mixture, sampled by annealed Langevin dynamics.

The result is the squared energy distance (times 1000) between the samples and held-out data.
"""
import sys

import numpy as np
import torch
from torch import nn

N_TRAIN = 6000
N_TEST = 1500
STEPS = 800
BATCH = 256
SIGMA_MAX = 8.0
SIGMA_MIN = 0.1
LEVELS = 12
LANGEVIN_STEPS = 20
STEP_SIZE = 0.02


def sample_target(n, rng):
    """Three arcs of a pinwheel with unequal weights, off centre."""
    arm = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    radius = rng.uniform(0.8, 4.0, n)
    angle = 2 * np.pi * arm / 3 + 0.45 * radius + 0.08 * rng.standard_normal(n)
    xy = np.stack([radius * np.cos(angle) + 1.5, radius * np.sin(angle) - 1.0], 1)
    return torch.from_numpy(xy.astype(np.float32))


class NoiseEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freqs", torch.linspace(0.3, 3.0, dim // 2))

    def forward(self, sigma):
        phase = sigma.log()[:, None] * self.freqs
        return torch.cat([phase.sin(), phase.cos()], 1)


class ScoreNet(nn.Module):
    """s(x, sigma) = f(x / sqrt(1 + sigma^2), sigma) / sigma."""

    def __init__(self, hidden=128, emb=32):
        super().__init__()
        self.embed = NoiseEmbedding(emb)
        self.inp = nn.Linear(2, hidden)
        self.films = nn.ModuleList(nn.Linear(emb, 2 * hidden) for _ in range(2))
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(2))
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, sigma):
        e = self.embed(sigma)
        h = self.inp(x / (1 + sigma[:, None] ** 2).sqrt())
        for film, layer in zip(self.films, self.layers):
            scale, shift = film(e).chunk(2, 1)
            h = h + layer(nn.functional.silu(h * (1 + scale) + shift))
        return self.out(nn.functional.silu(h)) / sigma[:, None]


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].mul_(self.decay).add_(v, alpha=1 - self.decay)

    def copy_to(self, model):
        model.load_state_dict(self.shadow)


def dsm_loss(model, x, sigmas):
    index = torch.randint(0, len(sigmas), (len(x),))
    sigma = sigmas[index]
    noise = torch.randn_like(x)
    noisy = x + sigma[:, None] * noise
    target = -noise / sigma[:, None]
    residual = model(noisy, sigma) - target
    weight = sigma ** 2
    return (weight * residual.square().sum(1)).mean()


@torch.no_grad()
def annealed_langevin(model, n, sigmas):
    x = sigmas[0] * torch.randn(n, 2)
    for sigma in sigmas:
        step = STEP_SIZE * sigma ** 2 * 4
        level = sigma.expand(n)
        for _ in range(LANGEVIN_STEPS):
            x = x + step * model(x, level) + (2 * step).sqrt() * torch.randn_like(x)
    sigma = sigmas[-1].expand(n)
    return x + sigmas[-1] ** 2 * model(x, sigma)


def energy_distance(a, b):
    n, m = len(a), len(b)
    within_a = torch.cdist(a, a).sum() / (n * (n - 1))
    within_b = torch.cdist(b, b).sum() / (m * (m - 1))
    return (2 * torch.cdist(a, b).mean() - within_a - within_b).item()


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    data = sample_target(N_TRAIN, rng)
    held_out = sample_target(N_TEST, rng)
    mean, std = data.mean(0), data.std()
    data = (data - mean) / std

    sigmas = torch.from_numpy(np.geomspace(SIGMA_MAX / std.item(), SIGMA_MIN / std.item(), LEVELS)).float()
    model = ScoreNet()
    ema = EMA(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS, eta_min=1e-4)

    running = 0.0
    for step in range(1, STEPS + 1):
        batch = data[torch.randint(0, len(data), (BATCH,))]
        loss = dsm_loss(model, batch, sigmas)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        ema.update(model)
        running += loss.item()
        if step % 200 == 0:
            print(f"step {step} dsm loss {running / 200:.4f}")
            running = 0.0

    ema.copy_to(model)
    samples = annealed_langevin(model, N_TEST, sigmas) * std + mean
    gauss = torch.randn(N_TEST, 2) * held_out.std(0) + held_out.mean(0)
    print(f"gaussian fit {1000 * energy_distance(gauss, held_out):.2f}")
    print(f"result {1000 * energy_distance(samples, held_out):.3f}")


if __name__ == "__main__":
    main()
