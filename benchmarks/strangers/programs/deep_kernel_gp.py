"""Exact GP regression with a deep kernel: MLP features, ARD-RBF on top, trained on the marginal likelihood."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def plant_data(n, rng):
    """Yield of a chemical plant from temperature [K], pressure [Pa], flow, pH and one idle gauge."""
    temp = rng.uniform(300, 500, n)
    pres = rng.uniform(1e5, 5e5, n)
    flow = rng.uniform(0, 2, n)
    ph = rng.uniform(5, 9, n)
    idle = rng.normal(size=n)
    s = (temp - 400) / 60
    core = np.where(s > 0.3, 1.5, -0.5) + np.sin(3 * flow) * np.exp(-0.5 * (ph - 7) ** 2)
    core = core + 0.5 * np.tanh(3 * (pres / 1e5 - 3)) * flow
    y = 250 + 40 * core + 12 * rng.normal(size=n)
    return torch.tensor(np.stack([temp, pres, flow, ph, idle], 1)), torch.tensor(y)


class Features(nn.Module):
    def __init__(self, d_in, d_hidden=16, d_out=2):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_in, d_hidden), nn.Tanh(),
            nn.Linear(d_hidden, d_hidden), nn.Tanh(),
            nn.Linear(d_hidden, d_out),
        )

    def forward(self, x):
        return self.net(x)


class DeepKernelGP(nn.Module):
    def __init__(self, d_in, d_feat=2):
        super().__init__()
        self.features = Features(d_in, d_out=d_feat)
        self.raw_length = nn.Parameter(torch.zeros(d_feat))
        self.raw_amp = nn.Parameter(torch.tensor(0.0))
        self.raw_noise = nn.Parameter(torch.tensor(-1.0))
        self.mean = nn.Parameter(torch.tensor(0.0))

    @property
    def noise(self):
        return F.softplus(self.raw_noise) + 1e-4

    def kernel(self, a, b):
        fa = self.features(a) / F.softplus(self.raw_length)
        fb = self.features(b) / F.softplus(self.raw_length)
        d2 = (fa[:, None] - fb[None]).square().sum(-1)
        return F.softplus(self.raw_amp) * torch.exp(-0.5 * d2)

    def factor(self, x, y):
        n = len(x)
        K = self.kernel(x, x) + self.noise * torch.eye(n)
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve((y - self.mean).unsqueeze(1), L)
        return L, alpha

    def neg_mll(self, x, y):
        L, alpha = self.factor(x, y)
        fit = 0.5 * ((y - self.mean) * alpha.squeeze(1)).sum()
        complexity = L.diagonal().log().sum()
        return (fit + complexity) / len(x) + 0.5 * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, x_new):
        L, alpha = self.factor(x, y)
        Ks = self.kernel(x, x_new)
        mean = self.mean + Ks.T @ alpha
        v = torch.linalg.solve_triangular(L, Ks, upper=False)
        var = F.softplus(self.raw_amp) - v.square().sum(0) + self.noise
        return mean.squeeze(1), var.clamp_min(1e-9)


def gaussian_nlpd(y, mean, var):
    return (0.5 * torch.log(2 * math.pi * var) + 0.5 * (y - mean) ** 2 / var).mean().item()


class Standardiser:
    def fit(self, t):
        self.mu, self.sd = t.mean(0), t.std(0)
        return self

    def __call__(self, t):
        return (t - self.mu) / self.sd


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    x_tr, y_tr = plant_data(320, rng)
    x_te, y_te = plant_data(500, rng)
    sx, sy = Standardiser().fit(x_tr), Standardiser().fit(y_tr)
    xs, ys = sx(x_tr), sy(y_tr)

    gp = DeepKernelGP(x_tr.shape[1])
    hypers = [p for name, p in gp.named_parameters() if not name.startswith("features")]
    opt = torch.optim.Adam([
        {"params": gp.features.parameters(), "lr": 2e-3, "weight_decay": 1e-2},
        {"params": hypers, "lr": 2e-2},
    ])
    for it in range(200):
        opt.zero_grad()
        loss = gp.neg_mll(xs, ys)
        loss.backward()
        opt.step()
        if it % 25 == 0 or it == 199:
            print(f"iter {it:3d} neg mll {loss.item():.4f} noise {gp.noise.item():.4f}")

    mean, var = gp.predict(xs, ys, sx(x_te))
    mean, var = mean * sy.sd + sy.mu, var * sy.sd ** 2
    rmse = (mean - y_te).square().mean().sqrt().item()
    inside = ((mean - y_te).abs() < 1.96 * var.sqrt()).double().mean().item()
    print(f"test rmse {rmse:.3f} (std of y {y_te.std():.3f}), 95% band covers {inside:.3f}")
    print(f"result {gaussian_nlpd(y_te, mean, var):.4f}")


if __name__ == "__main__":
    main()
