"""Sparse variational Gaussian process with input-dependent noise on a synthetic terrain survey."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn


def survey(n, rng):
    """Heights at random places, noisier towards the east; one nuisance input; scaled to unit spread."""
    x = rng.uniform(-2, 2, size=(n, 3))
    height = np.sin(2.5 * x[:, 0]) * np.cos(1.5 * x[:, 1]) + 0.5 * x[:, 1] + 0.8 * np.exp(-4 * ((x[:, 0] - 1) ** 2 + x[:, 1] ** 2))
    sigma = 0.05 + 0.25 / (1 + np.exp(-3 * x[:, 0]))
    y = height + sigma * rng.normal(size=n)
    return torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)


class ArdKernel(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dims, dtype=torch.float64))
        self.log_amp = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, a, b):
        a, b = a / self.log_scale.exp(), b / self.log_scale.exp()
        d2 = (a.pow(2).sum(-1, keepdim=True) + b.pow(2).sum(-1) - 2 * a @ b.t()).clamp(min=0)
        return (2 * self.log_amp).exp() * torch.exp(-0.5 * d2)

    def diag(self, a):
        return (2 * self.log_amp).exp().expand(len(a))


class WhitenedProcess(nn.Module):
    """u = L v with v ~ N(m, S S^T); predictive marginals by the usual projections."""

    def __init__(self, inducing, jitter=1e-5):
        super().__init__()
        m = len(inducing)
        self.kernel = ArdKernel(inducing.shape[1])
        self.places = nn.Parameter(inducing.clone())
        self.mean = nn.Parameter(torch.zeros(m, dtype=torch.float64))
        self.root = nn.Parameter(torch.eye(m, dtype=torch.float64) * 0.5)
        self.offset = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.jitter = jitter

    def chol(self):
        k = self.kernel(self.places, self.places)
        return torch.linalg.cholesky(k + self.jitter * torch.eye(len(k), dtype=k.dtype))

    def marginals(self, x):
        proj = torch.linalg.solve_triangular(self.chol(), self.kernel(self.places, x), upper=False)
        s = self.root.tril()
        mean = proj.t() @ self.mean + self.offset
        var = self.kernel.diag(x) - proj.pow(2).sum(0) + (s.t() @ proj).pow(2).sum(0)
        return mean, var.clamp(min=1e-8)

    def kl(self):
        s = self.root.tril()
        logdet = 2 * s.diagonal().abs().log().sum()
        return 0.5 * (s.pow(2).sum() + self.mean.pow(2).sum() - len(self.mean) - logdet)


class HeteroscedasticSVGP(nn.Module):
    def __init__(self, inducing):
        super().__init__()
        self.signal = WhitenedProcess(inducing)
        self.noise = WhitenedProcess(inducing[::3])
        nn.init.constant_(self.noise.offset, -1.0)

    def expected_loglik(self, x, y):
        f, vf = self.signal.marginals(x)
        g, vg = self.noise.marginals(x)
        inv = torch.exp(-g + 0.5 * vg)
        return -0.5 * (math.log(2 * math.pi) + g + inv * ((y - f).pow(2) + vf))

    def elbo(self, x, y, n_total):
        fit = self.expected_loglik(x, y).sum() * (n_total / len(x))
        return fit - self.signal.kl() - self.noise.kl()

    @torch.no_grad()
    def predict(self, x):
        f, vf = self.signal.marginals(x)
        g, vg = self.noise.marginals(x)
        return f, vf + torch.exp(g + 0.5 * vg)


def negative_log_density(model, x, y, y_mean, y_std):
    f, v = model.predict(x)
    f, v = f * y_std + y_mean, v * y_std ** 2
    return (0.5 * (torch.log(2 * math.pi * v) + (y - f).pow(2) / v)).mean().item()


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("seed", type=int, nargs="?", default=0)
    ap.add_argument("--train", type=int, default=1500)
    ap.add_argument("--inducing", type=int, default=48)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--steps", type=int, default=2200)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    x, y = survey(args.train, rng)
    x_test, y_test = survey(1000, rng)
    y_mean, y_std = y.mean(), y.std()
    target = (y - y_mean) / y_std
    model = HeteroscedasticSVGP(x[rng.choice(args.train, args.inducing, replace=False)])
    variational = [p for gp in (model.signal, model.noise) for p in (gp.mean, gp.root)]
    hyper = [p for gp in (model.signal, model.noise) for p in (gp.places, gp.offset, *gp.kernel.parameters())]
    opt = torch.optim.Adam([{"params": variational, "lr": 2e-2}, {"params": hyper, "lr": 1e-2}])
    print(f"untrained {negative_log_density(model, x_test, y_test, y_mean, y_std):.4f}")
    order = torch.randperm(args.train)
    at = 0
    for step in range(args.steps):
        if at + args.batch > args.train:
            order, at = torch.randperm(args.train), 0
        rows = order[at : at + args.batch]
        at += args.batch
        loss = -model.elbo(x[rows], target[rows], args.train) / args.train
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 400 == 0 or step == args.steps - 1:
            print(f"step {step:5d} negative elbo per point {loss.item():.4f}")
    print(f"result {negative_log_density(model, x_test, y_test, y_mean, y_std):.5f}")


if __name__ == "__main__":
    main()
