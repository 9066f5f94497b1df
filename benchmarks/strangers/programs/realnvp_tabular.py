# RealNVP density estimation on a small tabular data set (6 sensors, strongly non-Gaussian).
import argparse
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("run", type=int, nargs="?", default=0, help="number of the run")
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--hidden", type=int, default=48)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--batch", type=int, default=200)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--seed", type=int, default=3)
args = parser.parse_args([])


def sensors(n, rng):
    theta = rng.uniform(0, np.pi, n)
    side = rng.integers(0, 2, n)
    a = np.cos(theta) * np.where(side, 1, -1) + side
    b = np.sin(theta) * np.where(side, 1, -1) + 0.4 * side
    c = a ** 2 + 0.2 * rng.normal(size=n)
    d = np.where(rng.random(n) < 0.3, 3.0, -1.0) + 0.3 * rng.normal(size=n)
    e = np.sin(2 * b) + 0.3 * d + 0.15 * rng.normal(size=n)
    f = np.abs(c) * rng.normal(size=n) * 0.5
    x = np.stack([a, b, c, d, e, f], 1) + 0.05 * rng.normal(size=(n, 6))
    return x * np.array([5.0, 0.2, 3.0, 10.0, 1.0, 4.0]) + np.array([20.0, 1.0, 0.0, -5.0, 2.0, 100.0])


def mlp(d_in, d_hidden, d_out):
    net = nn.Sequential(nn.Linear(d_in, d_hidden), nn.ReLU(),
                        nn.Linear(d_hidden, d_hidden), nn.ReLU(),
                        nn.Linear(d_hidden, d_out))
    net[-1].weight.data.mul_(0.1)
    net[-1].bias.data.zero_()
    return net


class Coupling(nn.Module):
    def __init__(self, dim, hidden, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = mlp(dim, hidden, dim)
        self.t = mlp(dim, hidden, dim)
        self.s_scale = nn.Parameter(torch.ones(dim))

    def _st(self, frozen):
        s = self.s_scale * torch.tanh(self.s(frozen)) * (1 - self.mask)
        t = self.t(frozen) * (1 - self.mask)
        return s, t

    def forward(self, x):
        s, t = self._st(x * self.mask)
        return x * torch.exp(s) + t, s.sum(dim=1)

    def inverse(self, z):
        s, t = self._st(z * self.mask)
        return (z - t) * torch.exp(-s)


class RealNVP(nn.Module):
    def __init__(self, dim, hidden, layers):
        super().__init__()
        self.dim = dim
        couplings = []
        for k in range(layers):
            mask = (torch.arange(dim) % 2 == k % 2).float()
            couplings.append(Coupling(dim, hidden, mask))
        self.couplings = nn.ModuleList(couplings)

    def log_prob(self, x):
        logdet = torch.zeros(len(x))
        for layer in self.couplings:
            x, ld = layer(x)
            logdet = logdet + ld
        base = -0.5 * (x ** 2).sum(dim=1) - 0.5 * self.dim * math.log(2 * math.pi)
        return base + logdet

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, self.dim)
        for layer in reversed(self.couplings):
            z = layer.inverse(z)
        return z


torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)
train = torch.tensor(sensors(4000, rng), dtype=torch.float32)
test = torch.tensor(sensors(2000, rng), dtype=torch.float32)
mu, sd = train.mean(0), train.std(0)
loader = DataLoader(TensorDataset((train - mu) / sd), batch_size=args.batch, shuffle=True)

flow = RealNVP(train.shape[1], args.hidden, args.layers)
optim = torch.optim.Adam(flow.parameters(), lr=args.lr)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, T_max=args.epochs * len(loader))

for epoch in range(args.epochs):
    running = 0.0
    for (xb,) in loader:
        nll = -flow.log_prob(xb).mean()
        optim.zero_grad()
        nll.backward()
        optim.step()
        sched.step()
        running += nll.item() / len(loader)
    if epoch % 2 == 0 or epoch == args.epochs - 1:
        print(f"epoch {epoch:2d} train nll {running:.4f}")

flow.eval()
with torch.no_grad():
    z = (test - mu) / sd
    test_nll = -(flow.log_prob(z) - sd.log().sum()).mean().item()
    gauss = torch.distributions.MultivariateNormal(mu, torch.cov(train.T))
    gauss_nll = -gauss.log_prob(test).mean().item()
    draws = flow.sample(2000) * sd + mu
    gap = ((draws.mean(0) - test.mean(0)).abs() / sd).max().item()
print(f"full-covariance gaussian nll {gauss_nll:.4f}, worst mean gap of samples {gap:.3f}")
print(f"result {test_nll:.4f}")
