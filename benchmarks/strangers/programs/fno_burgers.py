"""Fourier neural operator for forced Burgers: u(x, 0) -> u(x, T) on a periodic grid."""
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def random_fields(n, grid, rng, n_modes=6):
    k = np.arange(1, n_modes + 1)
    x = np.linspace(0, 1, grid, endpoint=False)
    amp = rng.normal(size=(n, n_modes)) / k
    ph = rng.uniform(0, 2 * np.pi, size=(n, n_modes))
    return (amp[..., None] * np.sin(2 * np.pi * k[:, None] * x + ph[..., None])).sum(1)


def solve_burgers(u0, t_end=0.25, dt=5e-4, nu=0.01):
    n = u0.shape[1]
    x = np.linspace(0, 1, n, endpoint=False)
    k = 2 * np.pi * np.fft.rfftfreq(n, 1 / n)
    dealias = k < 2 / 3 * k.max()
    force = np.fft.rfft(2.0 * np.cos(2 * np.pi * x) * (x > 0.3))
    decay = np.exp(-nu * k ** 2 * dt)
    uh = np.fft.rfft(u0)
    for _ in range(round(t_end / dt)):
        u = np.fft.irfft(uh, n)
        flux = 1j * k * np.fft.rfft(0.5 * u ** 2) * dealias
        uh = decay * (uh + dt * (force - flux))
    return np.fft.irfft(uh, n)


def build_dataset(n, grid, rng):
    # a sweep over amplitudes, from gentle to steep
    strength = np.linspace(0.3, 1.5, n)[:, None]
    u0 = strength * random_fields(n, grid, rng)
    uT = solve_burgers(u0)
    return torch.tensor(u0, dtype=torch.float32), torch.tensor(uT, dtype=torch.float32)


class SpectralConv(nn.Module):
    def __init__(self, c_in, c_out, modes):
        super().__init__()
        self.modes = modes
        scale = 1 / c_in
        self.weight = nn.Parameter(scale * torch.randn(c_in, c_out, modes, dtype=torch.cfloat))

    def forward(self, x):
        xf = torch.fft.rfft(x, norm="forward")
        out = torch.zeros(x.shape[0], self.weight.shape[1], xf.shape[-1], dtype=xf.dtype)
        out[:, :, :self.modes] = torch.einsum("bim,iom->bom", xf[:, :, :self.modes], self.weight)
        return torch.fft.irfft(out, n=x.shape[-1], norm="forward")


class FNOBlock(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.spectral = SpectralConv(width, width, modes)
        self.local = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return F.gelu(self.spectral(x) + self.local(x))


class FNO(nn.Module):
    def __init__(self, width=24, modes=12, depth=3):
        super().__init__()
        self.lift = nn.Conv1d(2, width, 1)
        self.blocks = nn.ModuleList(FNOBlock(width, modes) for _ in range(depth))
        self.project = nn.Sequential(nn.Conv1d(width, 48, 1), nn.GELU(), nn.Conv1d(48, 1, 1))

    def forward(self, u):
        b, n = u.shape
        pos = torch.linspace(0, 1, n + 1)[:-1].expand(b, n)
        feats = torch.stack([u, pos], dim=-1)
        h = self.lift(feats.permute(0, 2, 1))
        for blk in self.blocks:
            h = blk(h)
        return self.project(h).squeeze(1)


def relative_l2(pred, true):
    return (pred - true).norm(dim=1) / true.norm(dim=1)


def run(epochs=20, batch=40, lr=4e-3, grid=64):
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    u0, uT = build_dataset(900, grid, rng)
    order = torch.from_numpy(rng.permutation(len(u0)))
    tr, te = order[:720], order[720:]
    mean, std = uT[tr].mean(0), uT[tr].std()

    model = FNO()
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5, gamma=0.5)
    t0 = time.time()
    for epoch in range(epochs):
        perm = tr[torch.randperm(len(tr))]
        total = 0.0
        for i in range(0, len(perm), batch):
            idx = perm[i:i + batch]
            pred = model(u0[idx]) * std + mean
            loss = relative_l2(pred, uT[idx]).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 2 == 0 or epoch == epochs - 1:
            print(f"epoch {epoch:3d}  rel-L2 {total / len(tr):.4f}  ({time.time() - t0:.1f}s)")

    model.eval()
    with torch.no_grad():
        err = relative_l2(model(u0[te]) * std + mean, uT[te]).mean().item()
        still = relative_l2(u0[te], uT[te]).mean().item()
    print(f"persistence baseline {still:.4f}")
    print(f"result {err:.4f}")


if __name__ == "__main__":
    run()
