"""Fit the vector field of a driven, damped pendulum from noisy trajectories sampled at irregular times."""
import math
import sys

import torch
from torch import nn


def true_field(t, z):
    th, om = z[..., 0], z[..., 1]
    return torch.stack([om, -1.6 * torch.sin(th) - 0.25 * om + 0.9 * torch.cos(1.3 * t)], dim=-1)


def rk4(field, t, z, h):
    k1 = field(t, z)
    k2 = field(t + h / 2, z + h[:, None] / 2 * k1)
    k3 = field(t + h / 2, z + h[:, None] / 2 * k2)
    k4 = field(t + h, z + h[:, None] * k3)
    return z + h[:, None] / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def integrate(field, z0, times):
    z, path = z0, [z0]
    for i in range(times.shape[1] - 1):
        z = rk4(field, times[:, i], z, times[:, i + 1] - times[:, i])
        path.append(z)
    return torch.stack(path, dim=1)


def make_data(n, length, gen, noise):
    gaps = 0.1 + 0.2 * torch.rand(n, length - 1, generator=gen)
    start = 2 * math.pi * torch.rand(n, 1, generator=gen)
    times = torch.cat([start, start + gaps.cumsum(1)], dim=1)
    z = torch.randn(n, 2, generator=gen) * torch.tensor([1.0, 0.8])
    clean = [z]
    for i in range(length - 1):
        t, h = times[:, i], gaps[:, i] / 4
        for _ in range(4):
            z = rk4(true_field, t, z, h)
            t = t + h
        clean.append(z)
    clean = torch.stack(clean, dim=1)
    return times, clean + noise * torch.randn(clean.shape, generator=gen)


class Field(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 2))

    def forward(self, t, z):
        phase = 1.3 * t
        feats = torch.stack([z[:, 0], z[:, 1], torch.sin(z[:, 0]), torch.sin(phase), torch.cos(phase)], dim=1)
        return self.net(feats)


def fit(field, times, obs, steps, lr, gen, batch=48):
    opt = torch.optim.Adam(field.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps, eta_min=lr / 50)
    horizon = 4
    for step in range(steps):
        if step > 0 and step % (steps // 5) == 0:
            horizon = min(horizon + 3, times.shape[1])
        idx = torch.randint(0, len(times), (batch,), generator=gen)
        pred = integrate(field, obs[idx, 0], times[idx, :horizon])
        loss = ((pred - obs[idx, :horizon]) ** 2)[:, 1:].mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(field.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 50 == 0 or step == steps - 1:
            print("step %4d  horizon %2d  loss %.5f  lr %.5f" % (step, horizon, loss.item(), sched.get_last_lr()[0]))


@torch.no_grad()
def rmse(field, times, clean):
    pred = integrate(field, clean[:, 0], times)
    return (pred - clean).pow(2).mean().sqrt().item()


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed + 7)
    times, obs = make_data(192, 20, gen, noise=0.03)
    val_t, val_z = make_data(64, 20, gen, noise=0.0)
    test_t, test_z = make_data(128, 40, gen, noise=0.0)
    field = Field()
    fit(field, times, obs, steps=310, lr=8e-3, gen=gen)
    print("validation rmse %.4f" % rmse(field, val_t, val_z))
    print("result %.5f" % rmse(field, test_t, test_z))


main()
